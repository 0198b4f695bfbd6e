/* Blocks of both matrices are packed as doubles into panels of MR rows and NR columns; a tile of MR x NR sums
 * stays in registers. Each sum runs over k in order, in blocks of KC, whatever the number of threads. */
#include "gemm.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#pragma GCC optimize("fp-contract=fast") /* a multiply-add may be one instruction: closer to the truth, and twice as fast */

#ifdef __AVX512F__
enum { VL = 8, MR = 8, NV = 3 };
#else
enum { VL = 4, MR = 4, NV = 3 };
#endif
enum { NR = VL * NV, KC = 256, MC = 96, NC = 8 * NR };

typedef double vec __attribute__((vector_size(VL * sizeof(double)), aligned(8)));

struct panels {
    double *a, *b, *c, line[KC];
};

/* rows of `strip` lanes: lane j of step p at to[p * strip + j]; lanes beyond `have` are 0 */
static void pack(const struct ak_mat *m, int64_t at, int64_t lane, int64_t step, int64_t have, int strip, int64_t k, double *line, double *to) {
    if (lane == 1 && step != 1) {
        for (int64_t p = 0; p < k; p++) {
            ak_load_run(m->dtype, m->data, at + p * step, 1, have, to + p * strip);
            for (int64_t j = have; j < strip; j++)
                to[p * strip + j] = 0;
        }
        return;
    }
    for (int64_t j = 0; j < strip; j++) {
        if (j < have)
            ak_load_run(m->dtype, m->data, at + j * lane, step, k, line);
        else
            memset(line, 0, (size_t)k * sizeof *line);
        for (int64_t p = 0; p < k; p++)
            to[p * strip + j] = line[p];
    }
}

static void tile(int64_t k, const double *restrict a, const double *restrict b, double *restrict c) {
    vec s[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            s[i][j] = *(const vec *)(c + i * NC + j * VL);
    for (int64_t p = 0; p < k; p++, a += MR, b += NR) {
        vec v[NV];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            v[j] = *(const vec *)(b + j * VL);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++)
                s[i][j] += a[i] * v[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            *(vec *)(c + i * NC + j * VL) = s[i][j];
}

static int64_t at_of(const int64_t *at, int64_t i) { return at ? at[i] : 0; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void finish(const struct ak_gemm *g, int64_t batch, int64_t i0, int64_t j0, int64_t m, int64_t n, double *c) {
    double add[NC];
    for (int64_t i = 0; i < m; i++) {
        double *row = c + i * NC;
        if (g->alpha != 1)
            for (int64_t j = 0; j < n; j++)
                row[j] *= g->alpha;
        if (g->add.data) {
            const struct ak_mat *d = &g->add;
            ak_load_run(d->dtype, d->data, d->at + at_of(g->add_at, batch) + (i0 + i) * d->row + j0 * d->col, d->col, n, add);
            for (int64_t j = 0; j < n; j++)
                row[j] += g->beta * add[j];
        }
        const struct ak_mat *o = &g->out;
        ak_store_run(o->dtype, o->data, o->at + at_of(g->out_at, batch) + (i0 + i) * o->row + j0 * o->col, o->col, n, row);
    }
}

static void block(const struct ak_gemm *g, int64_t batch, int64_t i0, int64_t j0, struct panels *s) {
    int64_t m = least(MC, g->m - i0), n = least(NC, g->n - j0);
    int64_t a = g->a.at + at_of(g->a_at, batch) + i0 * g->a.row, b = g->b.at + at_of(g->b_at, batch) + j0 * g->b.col;
    memset(s->c, 0, (size_t)((m + MR - 1) / MR * MR) * NC * sizeof *s->c);
    for (int64_t p = 0; p < g->k; p += KC) {
        int64_t k = least(KC, g->k - p);
        for (int64_t i = 0; i < m; i += MR)
            pack(&g->a, a + i * g->a.row + p * g->a.col, g->a.row, g->a.col, least(MR, m - i), MR, k, s->line, s->a + i * k);
        for (int64_t j = 0; j < n; j += NR)
            pack(&g->b, b + j * g->b.col + p * g->b.row, g->b.col, g->b.row, least(NR, n - j), NR, k, s->line, s->b + j * k);
        for (int64_t j = 0; j < n; j += NR)
            for (int64_t i = 0; i < m; i += MR)
                tile(k, s->a + i * k, s->b + j * k, s->c + i * NC + j);
    }
    finish(g, batch, i0, j0, m, n, s->c);
}

static void whole_row(const struct ak_gemm *g, int64_t batch, int64_t i) {
    const struct ak_mat *a = &g->a, *b = &g->b, *o = &g->out, *d = &g->add;
    for (int64_t j = 0; j < g->n; j++) {
        uint64_t s = 0;
        for (int64_t p = 0; p < g->k; p++)
            s += (uint64_t)ak_load_i64(a->dtype, a->data, a->at + at_of(g->a_at, batch) + i * a->row + p * a->col) *
                 (uint64_t)ak_load_i64(b->dtype, b->data, b->at + at_of(g->b_at, batch) + p * b->row + j * b->col);
        s *= (uint64_t)(int64_t)g->alpha;
        if (d->data)
            s += (uint64_t)(int64_t)g->beta * (uint64_t)ak_load_i64(d->dtype, d->data, d->at + at_of(g->add_at, batch) + i * d->row + j * d->col);
        int64_t v = (int64_t)s;
        ak_store_run_i64(o->dtype, o->data, o->at + at_of(g->out_at, batch) + i * o->row + j * o->col, 1, 1, &v);
    }
}

void ak_gemm(const struct ak_gemm *g) {
    int64_t batch = g->batch ? g->batch : 1, down = (g->m + MC - 1) / MC, across = (g->n + NC - 1) / NC, blocks = batch * down * across;
    if (!ak_dtype_is_float(g->a.dtype)) {
        for (int64_t t = 0; t < batch * g->m; t++)
            whole_row(g, t / g->m, t % g->m);
        return;
    }
#pragma omp parallel if (blocks > 1 && (double)g->m * (double)g->n * (double)g->k * (double)batch > 1e5)
    {
        struct panels s;
        s.a = ak_malloc(((size_t)(MC + MR) * KC + (size_t)(NC + NR) * KC + (size_t)(MC + MR) * NC) * sizeof(double));
        s.b = s.a + (MC + MR) * KC;
        s.c = s.b + (NC + NR) * KC;
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < blocks; t++)
            block(g, t / (down * across), t % down * MC, t / down % across * NC, &s);
        free(s.a);
    }
}
