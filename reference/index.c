/* Elements picked by index tensors. Indices are checked before anything is written. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "walk.h"

static bool is_index(const struct ak_tensor *t) { return t && (t->dtype == AK_I64 || t->dtype == AK_I32); }

/* The indices as int64_t, negative ones made positive if `wrap`; NULL if one is out of range. */
static int64_t *checked(const struct ak_tensor *t, int64_t size, bool wrap, struct ak_err *err) {
    int64_t *v = ak_wholes(t), n = ak_numel(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = wrap && v[i] < 0 ? v[i] + size : v[i];
        if (at < 0 || at >= size) {
            ak_bad(err, "index %lld is out of range for %lld", (long long)v[i], (long long)size);
            free(v);
            return NULL;
        }
        v[i] = at;
    }
    return v;
}

static void copy_element(const struct ak_tensor *to, int64_t at, const struct ak_tensor *from, int64_t from_at) {
    size_t size = ak_dtype_size(to->dtype);
    memcpy((char *)to->data + (size_t)at * size, (const char *)from->data + (size_t)from_at * size, size);
}

/* ---- embedding: rows of weight [v, e] ---- */

static int infer_embedding(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *w = ak_arg(c, 0), *x = ak_arg(c, 1);
    if (!w || w->ndim != 2 || !is_index(x) || x->ndim == AK_MAX_DIMS) return ak_bad(err, "a weight [v, e] and integers are wanted");
    struct ak_tensor o = *x;
    o.shape[o.ndim] = w->shape[1];
    return ak_out(c, w->dtype, x->ndim + 1, o.shape);
}
static int run_embedding(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *w = ak_arg(c, 0), *x = ak_arg(c, 1), *o = &c->out[0];
    int64_t *v = checked(x, w->shape[0], false, err), n = ak_numel(x), e = w->shape[1];
    if (!v) return -1;
    for (int64_t i = 0; i < n; i++) {
        struct ak_tensor row = ak_tensor_new(o->dtype, 1, &e), from = row;
        row.data = o->data;
        row.offset = o->offset + i * e;
        from.data = w->data;
        from.offset = w->offset + v[i] * w->stride[0];
        from.stride[0] = w->stride[1];
        ak_copy(&row, &from);
    }
    free(v);
    return 0;
}

/* ---- index_select(self, dim, index) ---- */

static int infer_index_select(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *x = ak_arg(c, 2);
    int d;
    if (!t || !is_index(x) || x->ndim > 1) return ak_bad(err, "a vector of integers is wanted");
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    struct ak_tensor o = *t;
    if (t->ndim) o.shape[d] = ak_numel(x);
    return ak_out(c, t->dtype, t->ndim, o.shape);
}
static int run_index_select(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *x = ak_arg(c, 2);
    int d = 0;
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    int64_t *v = checked(x, t->ndim ? t->shape[d] : 1, false, err), n = ak_numel(x);
    if (!v) return -1;
    struct ak_tensor to = c->out[0], from = *t;
    if (t->ndim) to.shape[d] = from.shape[d] = 1;
    for (int64_t i = 0; i < n; i++) {
        if (t->ndim) {
            to.offset = c->out[0].offset + i * to.stride[d];
            from.offset = t->offset + v[i] * t->stride[d];
        }
        ak_copy(&to, &from);
    }
    free(v);
    return 0;
}

/* ---- gather(self, dim, index): out[i][j] = self[i][index[i][j]] for dim 1 ---- */

static int infer_gather(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *x = ak_arg(c, 2);
    int d;
    if (!t || !is_index(x)) return ak_bad(err, "integers are wanted as index");
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    if (ak_numel(x) == 0) return ak_out(c, t->dtype, x->ndim, x->shape);
    bool fits = (x->ndim ? x->ndim : 1) == (t->ndim ? t->ndim : 1);
    for (int i = 0; fits && i < t->ndim && i < x->ndim; i++)
        fits = i == d || x->shape[i] <= t->shape[i];
    if (!fits) return ak_bad(err, "the index is larger than the tensor");
    return ak_out(c, t->dtype, x->ndim, x->shape);
}
static int run_gather(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *x = ak_arg(c, 2), *o = &c->out[0];
    int d = 0;
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    int64_t *v = checked(x, t->ndim ? t->shape[d] : 1, false, err), n = ak_numel(x);
    if (!v) return -1;
    struct ak_tensor base = ak_tensor_new(t->dtype, x->ndim, x->shape); /* the input seen by the index's other dims */
    for (int i = 0; i < x->ndim; i++)
        base.stride[i] = i == d || t->ndim == 0 ? 0 : t->stride[i];
    base.offset = t->offset;
#pragma omp parallel for schedule(static) if (n > 1 << 15)
    for (int64_t i = 0; i < n; i++)
        copy_element(o, o->offset + i, t, ak_index(&base, i) + (t->ndim ? v[i] * t->stride[d] : 0));
    free(v);
    return 0;
}

/* ---- index.Tensor(self, indices): the index tensors broadcast and take the place of their dims, which is in
 * front if the indexed dims are not side by side ---- */

struct picks {
    int ndim, first, n;         /* the indices' broadcast shape, where it goes, how many dims it replaces */
    int64_t shape[AK_MAX_DIMS];
    unsigned set;
};

/* A mask of dtype bool would pick a number of elements that depends on the data. */
static int picks_of(const struct ak_opcall *c, struct picks *p, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int last = -1;
    *p = (struct picks){.first = -1};
    if (!t || c->in[1].ts.n > (size_t)t->ndim) return ak_bad(err, "more indices than dims");
    for (int i = 0; i < (int)c->in[1].ts.n; i++) {
        const struct ak_tensor *x = c->in[1].ts.v[i];
        if (!x) continue;
        if (!is_index(x)) return ak_bad(err, "integers are wanted as index; a mask gives shapes that depend on the data");
        if (ak_broadcast(&p->ndim, p->shape, x, err)) return -1;
        if (p->n && last != i - 1) p->first = 0;
        if (!p->n) p->first = i;
        p->set |= 1u << i;
        p->n++;
        last = i;
    }
    if (p->n == 0) return ak_bad(err, "no index is given");
    for (int i = 0, gap = 0; i < t->ndim; i++) { /* a gap between indexed dims moves them to the front */
        bool in = p->set >> i & 1;
        if (gap == 1 && !in) gap = 2;
        if (in && gap == 2) p->first = 0;
        if (in && gap == 0) gap = 1;
    }
    if (p->ndim + t->ndim - p->n > AK_MAX_DIMS) return ak_bad(err, "more than %d dims", AK_MAX_DIMS);
    return 0;
}

static int infer_index(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    struct picks p;
    if (picks_of(c, &p, err)) return -1;
    int64_t shape[AK_MAX_DIMS];
    int n = 0;
    for (int i = 0, kept = 0; i <= t->ndim; i++) {
        for (int k = 0; kept == p.first && k < p.ndim; k++)
            shape[n++] = p.shape[k];
        kept += kept == p.first ? AK_MAX_DIMS : 0; /* once */
        if (i == t->ndim || p.set >> i & 1) continue;
        shape[n++] = t->shape[i];
        kept++;
    }
    return ak_out(c, t->dtype, n, shape);
}

/* Where in the input each element of the broadcast index begins. */
static int64_t *offsets(const struct ak_opcall *c, const struct picks *p, int64_t n, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t *at = ak_calloc((size_t)n + 1, sizeof *at);
    for (int d = 0; d < (int)c->in[1].ts.n; d++) {
        const struct ak_tensor *x = c->in[1].ts.v[d];
        if (!x) continue;
        struct ak_tensor wide = ak_expanded(x, p->ndim, p->shape);
        int64_t *v = checked(&wide, t->shape[d], true, err);
        for (int64_t i = 0; v && i < n; i++)
            at[i] += v[i] * t->stride[d];
        free(v);
        if (!v) {
            free(at);
            return NULL;
        }
    }
    return at;
}

/* The dims of `whole` (an output, or what is put) split into those before and behind the picks, and the picks. */
static int run_index(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    struct picks p;
    if (picks_of(c, &p, err)) return -1;
    struct ak_tensor picks = ak_tensor_new(AK_I64, p.ndim, p.shape), from = {.dtype = t->dtype, .data = t->data}, to = *o, where = *o;
    int64_t n = ak_numel(&picks);
    int64_t *at = offsets(c, &p, n, err);
    if (!at) return -1;
    where.ndim = p.ndim;
    for (int k = 0; k < p.ndim; k++) {
        where.shape[k] = o->shape[p.first + k];
        where.stride[k] = o->stride[p.first + k];
    }
    to.ndim = 0;
    for (int i = 0, k = 0; i < t->ndim; i++) {
        if (p.set >> i & 1) continue;
        int od = k < p.first ? k : k + p.ndim;
        to.shape[k] = from.shape[k] = t->shape[i];
        to.stride[k] = o->stride[od];
        from.stride[k] = t->stride[i];
        to.ndim = from.ndim = ++k;
    }
    for (int64_t i = 0; i < n; i++) {
        to.offset = ak_index(&where, i);
        from.offset = t->offset + at[i];
        if (to.ndim == 0)
            copy_element(&to, to.offset, &from, from.offset);
        else
            ak_copy(&to, &from);
    }
    free(at);
    return 0;
}

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name}

static const struct ak_op rows[] = {
    ROW("embedding.default(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
        embedding),
    ROW("index_select.default(Tensor self, int dim, Tensor index) -> Tensor", index_select),
    ROW("gather.default(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather),
    ROW("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index),
};
AK_ROWS(ak_ops_index, rows);
