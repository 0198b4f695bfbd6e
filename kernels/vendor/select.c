/* ak: types aten.where.self aten.masked_fill.Scalar aten.masked_fill.Tensor */
/* One of two by a mask, whatever the elements: they are moved as bits. */
#include <omp.h>

#include "ak_kernel.h"

enum { OUT, MASK, YES, NO, OPERANDS };
enum { MAX_DIMS = 8, RUN = 4096, PARALLEL_FROM = 32768 };

/* All operands over out's dims, broadcast, out's largest stride first, neighbours merged.
 * Operand 0 is out. */
struct walk {
    int n;
    int64_t size[MAX_DIMS], step[OPERANDS][MAX_DIMS], rows, length;
};

static int64_t step_of(const DLTensor *t, const DLTensor *out, int dim) {
    int i = t ? dim - out->ndim + t->ndim : -1;
    return i < 0 || t->shape[i] == 1 ? 0 : t->strides[i];
}

static int fits(const DLTensor *t, const DLTensor *out) {
    if (t->ndim > out->ndim) return 0;
    for (int i = 0, d = out->ndim - t->ndim; i < t->ndim; i++, d++)
        if (t->shape[i] != 1 && t->shape[i] != out->shape[d]) return 0;
    return 1;
}

static void push(struct walk *w, int64_t size, const int64_t step[OPERANDS]) {
    int merge = w->n > 0;
    for (int k = 0; k < OPERANDS && merge; k++)
        merge = w->step[k][w->n - 1] == step[k] * size;
    if (!merge) w->n++;
    w->size[w->n - 1] = merge ? w->size[w->n - 1] * size : size;
    for (int k = 0; k < OPERANDS; k++)
        w->step[k][w->n - 1] = step[k];
}

/* Rows are what the cursor steps over, all dims but the last. */
static struct walk walk_over(const DLTensor *const t[OPERANDS]) {
    struct walk w = {0};
    int order[MAX_DIMS], n = t[0]->ndim;
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && t[0]->strides[order[k - 1]] < t[0]->strides[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        int64_t step[OPERANDS];
        if (t[0]->shape[order[i]] == 1) continue;
        for (int k = 0; k < OPERANDS; k++)
            step[k] = step_of(t[k], t[0], order[i]);
        push(&w, t[0]->shape[order[i]], step);
    }
    if (w.n == 0) push(&w, 1, (const int64_t[OPERANDS]){0});
    w.length = w.size[w.n - 1];
    w.rows = 1;
    for (int i = 0; i < w.n - 1; i++)
        w.rows *= w.size[i];
    return w;
}

struct cursor {
    int64_t at[MAX_DIMS], offset[OPERANDS];
};

static void seek(struct cursor *c, const struct walk *w, int64_t row) {
    *c = (struct cursor){0};
    for (int i = w->n - 2; i >= 0; i--) {
        c->at[i] = row % w->size[i];
        row /= w->size[i];
        for (int k = 0; k < OPERANDS; k++)
            c->offset[k] += c->at[i] * w->step[k][i];
    }
}

static void next_row(struct cursor *c, const struct walk *w) {
    for (int i = w->n - 2; i >= 0; i--) {
        int64_t by = ++c->at[i] < w->size[i] ? 1 : 1 - w->size[i];
        for (int k = 0; k < OPERANDS; k++)
            c->offset[k] += by * w->step[k][i];
        if (by == 1) return;
        c->at[i] = 0;
    }
}

static int masked_fill(const struct ak_call *call) { return strncmp(call->type, "aten.masked_fill", 16) == 0; }

/* The tensors by operand; a number is NULL. */
static void operands(const struct ak_call *call, const DLTensor *t[OPERANDS]) {
    t[OUT] = ak_tensor_arg(call, call->nargs - 1);
    if (masked_fill(call)) {
        t[MASK] = ak_tensor_arg(call, 1);
        t[YES] = call->nargs == 4 ? ak_tensor_arg(call, 2) : NULL;
        t[NO] = ak_tensor_arg(call, 0);
    } else {
        t[MASK] = ak_tensor_arg(call, 0);
        t[YES] = ak_tensor_arg(call, 1);
        t[NO] = ak_tensor_arg(call, 2);
    }
}

static int same_dtype(const DLTensor *a, const DLTensor *b) { return ak_is_dtype(a, b->dtype.code, b->dtype.bits); }

/* The bits of a number as an element of t; 0 where there is no such element type. */
static int encode(const DLTensor *t, const struct ak_attr *a, void *bits) {
    double f = a->type == AK_ATTR_REAL ? a->v.f : (double)a->v.i;
    int64_t i = a->type == AK_ATTR_REAL ? (int64_t)a->v.f : a->v.i;
    float single = (float)f;
    uint32_t u;
    memcpy(&u, &single, 4);
    if (ak_is_dtype(t, kDLFloat, 64)) return memcpy(bits, &f, 8), 1;
    if (ak_is_dtype(t, kDLFloat, 32)) return memcpy(bits, &u, 4), 1;
    if (ak_is_dtype(t, kDLFloat, 16)) return memcpy(bits, &(_Float16){(_Float16)f}, 2), 1;
    if (ak_is_dtype(t, kDLBfloat, 16)) {
        uint16_t h = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
        return memcpy(bits, &h, 2), 1;
    }
    if (t->dtype.code == AK_DL_BOOL) i = f != 0;
    if (t->dtype.code == kDLInt || t->dtype.code == kDLUInt || t->dtype.code == AK_DL_BOOL)
        return memcpy(bits, &i, t->dtype.bits / 8), 1; /* little-endian: the low bytes come first */
    return 0;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *t[OPERANDS];
    const struct ak_attr *value = ak_attr_find(call, "value");
    int64_t bits;
    *needs = (struct ak_needs){0, 0};
    operands(call, t);
    if (!t[MASK] || !t[NO] || t[OUT]->ndim > MAX_DIMS || t[OUT]->dtype.lanes != 1) return AK_UNSUPPORTED;
    if (!ak_is_dtype(t[MASK], AK_DL_BOOL, 8) && !ak_is_dtype(t[MASK], kDLUInt, 8)) return AK_UNSUPPORTED;
    if (!t[YES] && (!masked_fill(call) || !value || !encode(t[OUT], value, &bits))) return AK_UNSUPPORTED;
    for (int k = MASK; k < OPERANDS; k++)
        if (t[k] && (!fits(t[k], t[OUT]) || (k != MASK && !same_dtype(t[k], t[OUT])))) return AK_UNSUPPORTED;
    return AK_OK;
}

struct job {
    struct walk w;
    char *data[OPERANDS];
    int64_t item[OPERANDS]; /* bytes of an element */
};

#define CHOOSE(type)                                                                                                                     \
    static void choose_##type(type *restrict o, const uint8_t *m, const type *y, const type *z, const int64_t step[OPERANDS], int64_t n) { \
        int unit = step[OUT] == 1 && step[MASK] == 1;                                                                                    \
        if (unit && step[YES] == 1 && step[NO] == 1)                                                                                     \
            for (int64_t i = 0; i < n; i++)                                                                                              \
                o[i] = m[i] ? y[i] : z[i];                                                                                               \
        else if (unit && step[YES] == 0 && step[NO] == 1)                                                                                \
            for (int64_t i = 0; i < n; i++)                                                                                              \
                o[i] = m[i] ? *y : z[i];                                                                                                 \
        else                                                                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                                              \
                o[i * step[OUT]] = m[i * step[MASK]] ? y[i * step[YES]] : z[i * step[NO]];                                               \
    }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)

static void span(const struct job *j, const struct cursor *c, int64_t from, int64_t n) {
    int64_t step[OPERANDS];
    char *p[OPERANDS];
    for (int k = 0; k < OPERANDS; k++) {
        step[k] = j->w.step[k][j->w.n - 1];
        p[k] = j->data[k] + (c->offset[k] + from * step[k]) * j->item[k];
    }
    const uint8_t *m = (const uint8_t *)p[MASK];
    switch (j->item[OUT]) {
    case 1: choose_uint8_t((uint8_t *)p[OUT], m, (const uint8_t *)p[YES], (const uint8_t *)p[NO], step, n); break;
    case 2: choose_uint16_t((uint16_t *)p[OUT], m, (const uint16_t *)p[YES], (const uint16_t *)p[NO], step, n); break;
    case 4: choose_uint32_t((uint32_t *)p[OUT], m, (const uint32_t *)p[YES], (const uint32_t *)p[NO], step, n); break;
    case 8: choose_uint64_t((uint64_t *)p[OUT], m, (const uint64_t *)p[YES], (const uint64_t *)p[NO], step, n); break;
    }
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *t[OPERANDS];
    uint64_t bits = 0;
    operands(call, t);
    struct job j = {.w = walk_over(t)};
    for (int k = 0; k < OPERANDS; k++) {
        j.data[k] = t[k] ? (char *)t[k]->data + t[k]->byte_offset : (char *)&bits;
        j.item[k] = t[k] ? t[k]->dtype.bits / 8 : 0;
    }
    if (!t[YES]) encode(t[OUT], ak_attr_find(call, "value"), &bits);
    int64_t per_row = (j.w.length + RUN - 1) / RUN, tasks = j.w.rows * per_row;
#pragma omp parallel if (j.w.rows * j.w.length > PARALLEL_FROM)
    {
        int64_t n = omp_get_num_threads(), me = omp_get_thread_num(), last = tasks * (me + 1) / n;
        struct cursor c;
        for (int64_t i = tasks * me / n, part = -1; i < last; i++, part++) {
            if (part < 0) {
                part = i % per_row;
                seek(&c, &j.w, i / per_row);
            } else if (part == per_row) {
                part = 0;
                next_row(&c, &j.w);
            }
            span(&j, &c, part * RUN, part * RUN + RUN < j.w.length ? RUN : j.w.length - part * RUN);
        }
    }
    return AK_OK;
}
