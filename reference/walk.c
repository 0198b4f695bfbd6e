/* Walks, lanes, copies and the driver of pointwise ops. A walk's dims are merged where every
 * tensor allows it, so that contiguous operands of one shape become a single long dim. */
#include "walk.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum { PARALLEL = 1 << 15 }; /* elements from which threads pay */

/* ---- walks ---- */

void ak_walk_init(struct ak_walk *w, int ndim, const int64_t *shape) {
    *w = (struct ak_walk){.ndim = ndim};
    for (int i = 0; i < ndim; i++)
        w->shape[i] = shape[i];
}

void ak_walk_add(struct ak_walk *w, const struct ak_tensor *t) {
    int k = w->n++;
    if (!t) return;
    struct ak_tensor v = ak_expanded(t, w->ndim, w->shape);
    memcpy(w->stride[k], v.stride, sizeof v.stride);
    w->at[k] = v.offset;
}

static bool mergeable(const struct ak_walk *w, int a, int b) {
    for (int k = 0; k < w->n; k++)
        if (w->stride[k][a] != w->stride[k][b] * w->shape[b]) return false;
    return true;
}

static void put_dim(struct ak_walk *w, int to, int from) {
    w->shape[to] = w->shape[from];
    for (int k = 0; k < w->n; k++)
        w->stride[k][to] = w->stride[k][from];
}

static void merge(struct ak_walk *w) {
    int n = 0;
    for (int i = 0; i < w->ndim; i++) {
        if (w->shape[i] == 1) continue;
        if (n && mergeable(w, n - 1, i)) {
            int64_t outer = w->shape[n - 1];
            put_dim(w, n - 1, i);
            w->shape[n - 1] *= outer;
        } else {
            put_dim(w, n++, i);
        }
    }
    if (n == 0) { /* one element */
        w->shape[0] = 1;
        for (int k = 0; k < w->n; k++)
            w->stride[k][0] = 0;
        n = 1;
    }
    w->ndim = n;
}

static int64_t chunks(const struct ak_walk *w) { return (w->shape[w->ndim - 1] + AK_RUN - 1) / AK_RUN; }

int64_t ak_walk_pieces(struct ak_walk *w) {
    merge(w);
    int64_t n = chunks(w);
    for (int i = 0; i < w->ndim - 1; i++)
        n *= w->shape[i];
    return n;
}

int64_t ak_walk_piece(const struct ak_walk *w, int64_t p, int64_t *at) {
    int last = w->ndim - 1;
    int64_t per = chunks(w), first = p % per * AK_RUN, k = p / per;
    for (int i = 0; i < w->n; i++)
        at[i] = w->at[i] + first * w->stride[i][last];
    for (int d = last - 1; d >= 0; d--) {
        int64_t q = k % w->shape[d];
        k /= w->shape[d];
        for (int i = 0; i < w->n; i++)
            at[i] += q * w->stride[i][d];
    }
    int64_t left = w->shape[last] - first;
    return left < AK_RUN ? left : AK_RUN;
}

/* ---- pointwise ---- */

/* Operands are rounded to the common dtype first, as PyTorch does; numbers and tensors of rank 0 keep f32 beside narrower tensors. */
static void real_piece(struct ak_opcall *c, const struct ak_pointwise *p, const struct ak_walk *w, int64_t piece) {
    double x[AK_WALK_MAX][AK_RUN], y[AK_RUN];
    const double *xs[AK_WALK_MAX] = {x[0], x[1], x[2], x[3]};
    int64_t at[AK_WALK_MAX], n = ak_walk_piece(w, piece, at);
    enum ak_dtype number = p->common == AK_F64 ? AK_F64 : AK_F32;
    for (int k = 0; k < p->n; k++) {
        const struct ak_tensor *t = ak_arg(c, (size_t)p->arg[k]);
        if (t) {
            ak_load_run(t->dtype, t->data, at[k + 1], ak_walk_step(w, k + 1), n, x[k]);
            if (t->dtype != p->common) ak_round_run(t->ndim ? p->common : number, n, x[k]);
            continue;
        }
        double v = ak_num(c, (size_t)p->arg[k]);
        ak_round_run(number, 1, &v);
        for (int64_t i = 0; i < n; i++)
            x[k][i] = v;
    }
    p->real(xs, y, n, p->par);
    const struct ak_tensor *o = &c->out[0];
    ak_store_run(o->dtype, o->data, at[0], ak_walk_step(w, 0), n, y);
}

static void whole_piece(struct ak_opcall *c, const struct ak_pointwise *p, const struct ak_walk *w, int64_t piece) {
    int64_t x[AK_WALK_MAX][AK_RUN], y[AK_RUN];
    const int64_t *xs[AK_WALK_MAX] = {x[0], x[1], x[2], x[3]};
    int64_t at[AK_WALK_MAX], n = ak_walk_piece(w, piece, at);
    for (int k = 0; k < p->n; k++) {
        const struct ak_tensor *t = ak_arg(c, (size_t)p->arg[k]);
        if (t) ak_load_run_i64(t->dtype, t->data, at[k + 1], ak_walk_step(w, k + 1), n, x[k]);
        for (int64_t i = 0; !t && i < n; i++)
            x[k][i] = p->common == AK_BOOL ? ak_flag(c, (size_t)p->arg[k]) : ak_int(c, (size_t)p->arg[k]);
        if (!t || t->dtype != p->common) ak_wrap_run(p->common, n, x[k]);
    }
    p->whole(xs, y, n, p->par);
    const struct ak_tensor *o = &c->out[0];
    ak_store_run_i64(o->dtype, o->data, at[0], ak_walk_step(w, 0), n, y);
}

int ak_pointwise(struct ak_opcall *c, const struct ak_pointwise *p) {
    struct ak_walk w;
    ak_walk_init(&w, c->out[0].ndim, c->out[0].shape);
    ak_walk_add(&w, &c->out[0]);
    for (int k = 0; k < p->n; k++)
        ak_walk_add(&w, ak_arg(c, (size_t)p->arg[k]));
    int64_t pieces = ak_walk_pieces(&w), total = ak_numel(&c->out[0]);
    bool real = ak_dtype_is_float(p->common);
#pragma omp parallel for schedule(static) if (total > PARALLEL)
    for (int64_t i = 0; i < pieces; i++) {
        if (real)
            real_piece(c, p, &w, i);
        else
            whole_piece(c, p, &w, i);
    }
    return 0;
}

/* ---- copies ---- */

static void copy_piece(const struct ak_tensor *to, const struct ak_tensor *from, const struct ak_walk *w, int64_t piece) {
    int64_t at[AK_WALK_MAX], n = ak_walk_piece(w, piece, at), a = ak_walk_step(w, 0), b = ak_walk_step(w, 1);
    size_t size = ak_dtype_size(to->dtype);
    if (to->dtype == from->dtype && a == 1 && b == 1) {
        memcpy((char *)to->data + (size_t)at[0] * size, (const char *)from->data + (size_t)at[1] * size, (size_t)n * size);
    } else if (ak_dtype_is_float(from->dtype) && (ak_dtype_is_float(to->dtype) || to->dtype == AK_BOOL)) {
        double v[AK_RUN];
        ak_load_run(from->dtype, from->data, at[1], b, n, v);
        ak_store_run(to->dtype, to->data, at[0], a, n, v);
    } else {
        int64_t v[AK_RUN];
        ak_load_run_i64(from->dtype, from->data, at[1], b, n, v);
        ak_store_run_i64(to->dtype, to->data, at[0], a, n, v);
    }
}

void ak_copy(const struct ak_tensor *to, const struct ak_tensor *from) {
    struct ak_walk w;
    ak_walk_init(&w, to->ndim, to->shape);
    ak_walk_add(&w, to);
    ak_walk_add(&w, from);
    int64_t pieces = ak_walk_pieces(&w);
#pragma omp parallel for schedule(static) if (ak_numel(to) > PARALLEL)
    for (int64_t i = 0; i < pieces; i++)
        copy_piece(to, from, &w, i);
}

void ak_copy_reshaped(const struct ak_tensor *to, const struct ak_tensor *from) {
    struct ak_tensor t = ak_tensor_new(to->dtype, from->ndim, from->shape);
    t.data = to->data;
    t.offset = to->offset;
    ak_copy(&t, from);
}

void ak_fill(const struct ak_tensor *to, double real, int64_t whole) {
    bool is_real = ak_dtype_is_float(to->dtype);
    uint64_t one = 0;
    if (is_real)
        ak_store(to->dtype, &one, 0, real);
    else
        ak_store_run_i64(to->dtype, &one, 0, 1, 1, &whole);
    struct ak_tensor v = {.dtype = to->dtype, .data = &one};
    ak_copy(to, &v);
}

double *ak_reals(const struct ak_tensor *t) {
    struct ak_tensor d = ak_tensor_new(AK_F64, t->ndim, t->shape);
    d.data = ak_calloc((size_t)ak_numel(t) + 1, sizeof(double));
    ak_copy(&d, t);
    return d.data;
}

int64_t *ak_wholes(const struct ak_tensor *t) {
    struct ak_tensor d = ak_tensor_new(AK_I64, t->ndim, t->shape);
    d.data = ak_calloc((size_t)ak_numel(t) + 1, sizeof(int64_t));
    ak_copy(&d, t);
    return d.data;
}

/* ---- lanes ---- */

static void push_dim(struct ak_tensor *t, int64_t shape, int64_t stride) {
    if (t->ndim && t->shape[t->ndim - 1] > 0 && t->stride[t->ndim - 1] == shape * stride) {
        t->shape[t->ndim - 1] *= shape;
        t->stride[t->ndim - 1] = stride;
        return;
    }
    t->shape[t->ndim] = shape;
    t->stride[t->ndim++] = stride;
}

struct ak_lanes ak_lanes_of(const struct ak_tensor *t, unsigned set) {
    struct ak_lanes l = {.outer = {.dtype = t->dtype, .offset = t->offset, .data = t->data}, .inner = {.dtype = t->dtype, .data = t->data}};
    for (int i = 0; i < t->ndim; i++)
        push_dim(set >> i & 1 ? &l.inner : &l.outer, t->shape[i], t->stride[i]);
    l.n = ak_numel(&l.outer);
    l.length = ak_numel(&l.inner);
    return l;
}

/* Calls fn for each run of the lane: where it begins, its step, its length and where it lies in the lane. */
#define EACH_RUN(l, i, call)                                                                                           \
    do {                                                                                                               \
        const struct ak_tensor *t = &(l)->inner;                                                                       \
        int64_t base = ak_index(&(l)->outer, (i)), run = t->ndim ? t->shape[t->ndim - 1] : 1;                          \
        int64_t step = t->ndim ? t->stride[t->ndim - 1] : 1;                                                           \
        struct ak_tensor head = *t;                                                                                    \
        head.ndim = t->ndim > 1 ? t->ndim - 1 : 0;                                                                     \
        for (int64_t k = 0, runs = run ? (l)->length / run : 0; k < runs; k++) {                                       \
            int64_t at = base + (head.ndim ? ak_index(&head, k) : 0);                                                  \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

void ak_lane_load(const struct ak_lanes *l, int64_t i, double *to) {
    EACH_RUN(l, i, ak_load_run(t->dtype, t->data, at, step, run, to + k * run));
}

void ak_lane_store(const struct ak_lanes *l, int64_t i, const double *from) {
    EACH_RUN(l, i, ak_store_run(t->dtype, t->data, at, step, run, from + k * run));
}

void ak_lane_load_i64(const struct ak_lanes *l, int64_t i, int64_t *to) {
    EACH_RUN(l, i, ak_load_run_i64(t->dtype, t->data, at, step, run, to + k * run));
}

void ak_lane_store_i64(const struct ak_lanes *l, int64_t i, const int64_t *from) {
    EACH_RUN(l, i, ak_store_run_i64(t->dtype, t->data, at, step, run, from + k * run));
}

void ak_map_lanes(const struct ak_tensor *out, const struct ak_tensor *in, unsigned set, ak_lane_fn *fn, const double *par) {
    struct ak_lanes from = ak_lanes_of(in, set), to = ak_lanes_of(out, set);
#pragma omp parallel if (ak_numel(in) > PARALLEL)
    {
        double *x = ak_malloc((size_t)(2 * from.length + 1) * sizeof *x), *y = x + from.length;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < from.n; i++) {
            ak_lane_load(&from, i, x);
            fn(x, y, from.length, par);
            ak_lane_store(&to, i, y);
        }
        free(x);
    }
}
