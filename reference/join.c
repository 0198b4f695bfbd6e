/* Tensors put together, repeated, turned round. */
#include <string.h>

#include "walk.h"

/* The promoted dtype of a list. */
static int list_dtype(const struct ak_opcall *c, enum ak_dtype *d, struct ak_err *err) {
    int best[2] = {-1, -1};
    if (c->in[0].ts.n == 0) return ak_bad(err, "the list is empty");
    for (size_t i = 0; i < c->in[0].ts.n; i++) {
        const struct ak_tensor *t = c->in[0].ts.v[i];
        if (!t) return ak_bad(err, "entry %zu is absent", i);
        int *b = &best[t->ndim == 0];
        *b = *b < 0 ? (int)t->dtype : (int)ak_promote((enum ak_dtype)*b, t->dtype);
    }
    *d = best[0] < 0 || best[1] < 0 ? (enum ak_dtype)(best[0] < 0 ? best[1] : best[0]) : (enum ak_dtype)best[0];
    return 0;
}

/* PyTorch lets tensors of shape [0] be joined with anything. */
static bool skipped(const struct ak_tensor *t) { return t->ndim == 1 && t->shape[0] == 0; }

static int infer_cat(struct ak_opcall *c, struct ak_err *err) {
    enum ak_dtype dtype;
    const struct ak_tensor *first = NULL;
    struct ak_tensor out;
    int d = 0;
    if (list_dtype(c, &dtype, err)) return -1;
    for (size_t i = 0; i < c->in[0].ts.n; i++) {
        const struct ak_tensor *t = c->in[0].ts.v[i];
        if (t->ndim == 0) return ak_bad(err, "rank 0 cannot be joined");
        if (skipped(t)) continue;
        if (!first) {
            first = t;
            out = *t;
            if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
            continue;
        }
        bool fits = t->ndim == out.ndim;
        for (int k = 0; fits && k < t->ndim; k++)
            fits = k == d || t->shape[k] == out.shape[k];
        if (!fits) return ak_bad(err, "the shapes differ in another dim than %d", d);
        if (__builtin_add_overflow(out.shape[d], t->shape[d], &out.shape[d])) return ak_bad(err, "its result is too large");
    }
    return first ? ak_out(c, dtype, out.ndim, out.shape) : ak_out(c, dtype, 1, (int64_t[]){0});
}

static int run_cat(struct ak_opcall *c, struct ak_err *err) {
    int d = 0;
    if (ak_dim(ak_int(c, 1), c->out[0].ndim, &d, err)) return -1;
    struct ak_tensor to = c->out[0];
    for (size_t i = 0; i < c->in[0].ts.n; i++) {
        const struct ak_tensor *t = c->in[0].ts.v[i];
        if (skipped(t)) continue;
        to.shape[d] = t->shape[d];
        ak_copy(&to, t);
        to.offset += t->shape[d] * to.stride[d];
    }
    return 0;
}

static int infer_stack(struct ak_opcall *c, struct ak_err *err) {
    enum ak_dtype dtype;
    int d, n = 0;
    if (list_dtype(c, &dtype, err)) return -1;
    const struct ak_tensor *t = c->in[0].ts.v[0];
    for (size_t i = 1; i < c->in[0].ts.n; i++)
        if (!ak_same_shape(t, c->in[0].ts.v[i])) return ak_bad(err, "the shapes differ");
    if (t->ndim == AK_MAX_DIMS) return ak_bad(err, "more than %d dims", AK_MAX_DIMS);
    if (ak_dim(ak_int(c, 1), t->ndim + 1, &d, err)) return -1;
    int64_t shape[AK_MAX_DIMS];
    for (int i = 0; i <= t->ndim; i++)
        shape[i] = i == d ? (int64_t)c->in[0].ts.n : t->shape[n++];
    return ak_out(c, dtype, t->ndim + 1, shape);
}

static int run_stack(struct ak_opcall *c, struct ak_err *err) {
    int d = 0;
    if (ak_dim(ak_int(c, 1), c->out[0].ndim, &d, err)) return -1;
    struct ak_tensor to = c->out[0];
    int64_t step = to.stride[d];
    to.ndim--;
    for (int i = d; i < to.ndim; i++) {
        to.shape[i] = c->out[0].shape[i + 1];
        to.stride[i] = c->out[0].stride[i + 1];
    }
    for (size_t i = 0; i < c->in[0].ts.n; i++, to.offset += step)
        ak_copy(&to, c->in[0].ts.v[i]);
    return 0;
}

static int infer_repeat(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t times[AK_MAX_DIMS];
    int n;
    if (!t || ak_list(c, 1, &n, times, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    if (n < t->ndim && c->op->args[1].name[0] != 'd') return ak_bad(err, "%d repeats for rank %d", n, t->ndim);
    for (; n < t->ndim; n++) { /* tile(self, dims): those missing in front are 1 */
        memmove(times + 1, times, (size_t)n * sizeof *times);
        times[0] = 1;
    }
    for (int i = 0; i < n; i++) {
        int64_t size = i < n - t->ndim ? 1 : t->shape[i - (n - t->ndim)];
        if (times[i] < 0 || __builtin_mul_overflow(times[i], size, &times[i])) return ak_bad(err, "a repeat is negative or too large");
    }
    return ak_out(c, t->dtype, n, times);
}

/* Strides are never negative here, so turning round is a copy, element by element: `where` gives the
 * index in the input's dim d of the output's index i. */
static int run_moved(struct ak_opcall *c, int64_t (*where)(const struct ak_opcall *c, int d, int64_t i)) {
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    int64_t n = ak_numel(o);
    int lead = o->ndim - t->ndim;
#pragma omp parallel for schedule(static) if (n > 1 << 15)
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, at = t->offset;
        for (int d = o->ndim - 1; d >= lead; d--) {
            at += where(c, d - lead, rest % o->shape[d]) * t->stride[d - lead];
            rest /= o->shape[d];
        }
        if (ak_dtype_is_float(t->dtype))
            ak_store(o->dtype, o->data, o->offset + k, ak_load(t->dtype, t->data, at));
        else
            ak_store_i64(o->dtype, o->data, o->offset + k, ak_load_i64(t->dtype, t->data, at));
    }
    return 0;
}

static int64_t wrapped(const struct ak_opcall *c, int d, int64_t i) { return i % ak_arg(c, 0)->shape[d]; }
static int run_repeat(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_moved(c, wrapped);
}

static int infer_repeat_interleave(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t k = ak_int(c, 1);
    int d = 0;
    if (!t || k < 0) return ak_bad(err, "a tensor and a positive count are wanted");
    if (ak_none(c, 2)) {
        int64_t n;
        if (__builtin_mul_overflow(ak_numel(t), k, &n)) return ak_bad(err, "its result is too large");
        return ak_out(c, t->dtype, 1, &n);
    }
    if (ak_dim(ak_int(c, 2), t->ndim, &d, err)) return -1;
    struct ak_tensor out = *t;
    if (__builtin_mul_overflow(out.shape[d], k, &out.shape[d])) return ak_bad(err, "its result is too large");
    return ak_out(c, t->dtype, t->ndim, out.shape);
}

/* The output with the dim split into [size, k], to which the input broadcasts. */
static int run_repeat_interleave(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t k = ak_int(c, 1);
    int d = 0;
    if (ak_numel(&c->out[0]) == 0) return 0;
    struct ak_tensor to, from = *t;
    if (ak_none(c, 2))
        d = t->ndim - 1;
    else if (ak_dim(ak_int(c, 2), t->ndim, &d, err))
        return -1;
    if (t->ndim == AK_MAX_DIMS) return ak_bad(err, "more than %d dims", AK_MAX_DIMS - 1);
    from.ndim = t->ndim + 1;
    for (int i = t->ndim; i > d + 1; i--) {
        from.shape[i] = t->shape[i - 1];
        from.stride[i] = t->stride[i - 1];
    }
    from.shape[d + 1] = k;
    from.stride[d + 1] = 0;
    to = ak_tensor_new(c->out[0].dtype, from.ndim, from.shape);
    to.data = c->out[0].data;
    to.offset = c->out[0].offset;
    ak_copy(&to, &from);
    return 0;
}

static int infer_flip(struct ak_opcall *c, struct ak_err *err) {
    unsigned set;
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || ak_dim_set(c, 1, t->ndim, &set, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    return ak_infer_same(c, err);
}
static int64_t flipped(const struct ak_opcall *c, int d, int64_t i) {
    const struct ak_tensor *t = ak_arg(c, 0);
    for (size_t k = 0; k < c->in[1].ints.n; k++)
        if (c->in[1].ints.v[k] == d || c->in[1].ints.v[k] + t->ndim == d) return t->shape[d] - 1 - i;
    return i;
}
static int run_flip(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_moved(c, flipped);
}

static int infer_roll(struct ak_opcall *c, struct ak_err *err) {
    unsigned set;
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || ak_dim_set(c, 2, t->ndim, &set, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    if (c->in[1].kind != AK_VAL_INTS || c->in[2].kind != AK_VAL_INTS || c->in[1].ints.n != c->in[2].ints.n || c->in[1].ints.n == 0)
        return ak_bad(err, "shifts and dims differ in length");
    return ak_infer_same(c, err);
}
static int64_t rolled(const struct ak_opcall *c, int d, int64_t i) {
    const struct ak_tensor *t = ak_arg(c, 0);
    for (size_t k = 0; k < c->in[2].ints.n; k++)
        if (c->in[2].ints.v[k] == d || c->in[2].ints.v[k] + t->ndim == d) {
            int64_t n = t->shape[d], s = c->in[1].ints.v[k] % n;
            return ((i - s) % n + n) % n;
        }
    return i;
}
static int run_roll(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_moved(c, rolled);
}

static int infer_broadcast_tensors(struct ak_opcall *c, struct ak_err *err) {
    int ndim = 0;
    int64_t shape[AK_MAX_DIMS];
    if (c->in[0].ts.n > AK_MAX_OUTS) return ak_bad(err, "more than %d outputs", AK_MAX_OUTS);
    for (size_t i = 0; i < c->in[0].ts.n; i++)
        if (!c->in[0].ts.v[i] || ak_broadcast(&ndim, shape, c->in[0].ts.v[i], err)) return -1;
    for (size_t i = 0; i < c->in[0].ts.n; i++)
        ak_out(c, c->in[0].ts.v[i]->dtype, ndim, shape);
    return 0;
}
static int run_broadcast_tensors(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    for (size_t i = 0; i < c->nout; i++)
        ak_copy(&c->out[i], c->in[0].ts.v[i]);
    return 0;
}

#define ROW(s, name) {.schema = s, .infer = infer_##name, .run = run_##name}

static const struct ak_op rows[] = {
    ROW("aten.cat.default(Tensor[] tensors, int dim=0) -> Tensor", cat),
    ROW("aten.concat.default(Tensor[] tensors, int dim=0) -> Tensor", cat),
    ROW("aten.concatenate.default(Tensor[] tensors, int dim=0) -> Tensor", cat),
    ROW("aten.stack.default(Tensor[] tensors, int dim=0) -> Tensor", stack),
    ROW("aten.repeat.default(Tensor self, SymInt[] repeats) -> Tensor", repeat),
    ROW("aten.tile.default(Tensor self, SymInt[] dims) -> Tensor", repeat),
    ROW("aten.repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        repeat_interleave),
    ROW("aten.flip.default(Tensor self, int[] dims) -> Tensor", flip),
    ROW("aten.roll.default(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll),
    ROW("aten.broadcast_tensors.default(Tensor[] tensors) -> Tensor[]", broadcast_tensors),
};
AK_ROWS(ak_ops_join, rows);
