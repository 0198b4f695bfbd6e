/* Parts of a tensor along a dim, as views. */
#include "walk.h"

static int tensor_dim(struct ak_opcall *c, size_t i, const struct ak_tensor **t, int *d, struct ak_err *err) {
    *t = ak_arg(c, 0);
    if (!*t || (*t)->ndim == 0) return ak_bad(err, "a tensor with dims is wanted");
    return ak_dim(ak_int(c, i), (*t)->ndim, d, err);
}

/* length elements from `from` on; an empty part keeps the offset inside the storage */
static struct ak_tensor part(const struct ak_tensor *t, int d, int64_t from, int64_t length) {
    struct ak_tensor v = *t;
    if (length > 0) v.offset += from * t->stride[d];
    v.shape[d] = length;
    return v;
}

static struct ak_tensor without(const struct ak_tensor *t, int d, int64_t index) {
    struct ak_tensor v = *t;
    v.offset += index * t->stride[d];
    v.ndim--;
    for (int i = d; i < v.ndim; i++) {
        v.shape[i] = t->shape[i + 1];
        v.stride[i] = t->stride[i + 1];
    }
    return v;
}

/* Python's bounds: negative ones count from the end, all are clamped. */
static int64_t clamped(int64_t v, int64_t size) {
    if (v < 0) v = v < -size ? 0 : v + size;
    return v > size ? size : v;
}

static int infer_slice(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    if (tensor_dim(c, 1, &t, &d, err)) return -1;
    int64_t from = ak_none(c, 2) ? 0 : clamped(ak_int(c, 2), t->shape[d]);
    int64_t to = ak_none(c, 3) ? t->shape[d] : clamped(ak_int(c, 3), t->shape[d]), step = ak_int(c, 4);
    if (step <= 0) return ak_bad(err, "the step is not positive");
    int64_t n = to > from ? (to - from - 1) / step + 1 : 0;
    struct ak_tensor v = part(t, d, from, n);
    if (n > 1) v.stride[d] *= step; /* a step beyond the dim's end takes one element */
    return ak_out_view(c, 0, &v);
}

static int infer_select(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    if (tensor_dim(c, 1, &t, &d, err)) return -1;
    int64_t i = ak_int(c, 2), n = t->shape[d];
    if (i < -n || i >= n) return ak_bad(err, "index %lld is out of range for a dim of %lld", (long long)i, (long long)n);
    struct ak_tensor v = without(t, d, i < 0 ? i + n : i);
    return ak_out_view(c, 0, &v);
}

static int infer_narrow(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    if (tensor_dim(c, 1, &t, &d, err)) return -1;
    int64_t from = ak_int(c, 2), length = ak_int(c, 3), n = t->shape[d];
    if (from < 0) from += n;
    if (from < 0 || from > n || length < 0 || length > n - from) return ak_bad(err, "the part lies outside a dim of %lld", (long long)n);
    struct ak_tensor v = part(t, d, from, length);
    return ak_out_view(c, 0, &v);
}

static int too_many(struct ak_err *err) { return ak_bad(err, "more than %d outputs", AK_MAX_OUTS); }

static int parts_of(struct ak_opcall *c, const struct ak_tensor *t, int d, int64_t size, struct ak_err *err) {
    int64_t n = t->shape[d];
    if (size < 0 || (size == 0 && n != 0)) return ak_bad(err, "parts of %lld of a dim of %lld", (long long)size, (long long)n);
    int64_t count = n && size ? (n - 1) / size + 1 : 1;
    if (count > AK_MAX_OUTS) return too_many(err);
    for (int64_t i = 0; i < count; i++) {
        int64_t left = n - i * size;
        struct ak_tensor v = part(t, d, i * size, left < size ? left : size);
        ak_out_view(c, 0, &v);
    }
    return 0;
}

static int infer_split(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    return tensor_dim(c, 2, &t, &d, err) ? -1 : parts_of(c, t, d, ak_int(c, 1), err);
}

/* At most `chunks` parts: of equal size, rounded up, but for the last. */
static int infer_chunk(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    int64_t chunks = ak_int(c, 1);
    if (tensor_dim(c, 2, &t, &d, err)) return -1;
    if (chunks <= 0) return ak_bad(err, "the number of chunks is not positive");
    if (t->shape[d] == 0) {
        if (chunks > AK_MAX_OUTS) return too_many(err);
        for (int64_t i = 0; i < chunks; i++)
            ak_out_view(c, 0, t);
        return 0;
    }
    return parts_of(c, t, d, (t->shape[d] - 1) / chunks + 1, err);
}

static int infer_split_sizes(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    if (tensor_dim(c, 2, &t, &d, err)) return -1;
    if (c->in[1].kind != AK_VAL_INTS || c->in[1].ints.n > AK_MAX_OUTS) return too_many(err);
    int64_t from = 0;
    for (size_t i = 0; i < c->in[1].ints.n; i++) {
        int64_t n = c->in[1].ints.v[i];
        if (n < 0 || n > t->shape[d] - from) return ak_bad(err, "the sizes do not add up to %lld", (long long)t->shape[d]);
        struct ak_tensor v = part(t, d, from, n);
        ak_out_view(c, 0, &v);
        from += n;
    }
    return from == t->shape[d] ? 0 : ak_bad(err, "the sizes do not add up to %lld", (long long)t->shape[d]);
}

/* k parts whose sizes differ by at most one, the larger first. */
static int infer_tensor_split(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    int64_t k = ak_int(c, 1), from = 0;
    if (tensor_dim(c, 2, &t, &d, err)) return -1;
    if (k <= 0 || k > AK_MAX_OUTS) return k <= 0 ? ak_bad(err, "the number of sections is not positive") : too_many(err);
    for (int64_t i = 0; i < k; i++) {
        int64_t n = t->shape[d] / k + (i < t->shape[d] % k);
        struct ak_tensor v = part(t, d, from, n);
        ak_out_view(c, 0, &v);
        from += n;
    }
    return 0;
}

static int infer_unbind(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t;
    int d;
    if (tensor_dim(c, 1, &t, &d, err)) return -1;
    if (t->shape[d] > AK_MAX_OUTS) return too_many(err);
    for (int64_t i = 0; i < t->shape[d]; i++) {
        struct ak_tensor v = without(t, d, i);
        ak_out_view(c, 0, &v);
    }
    return 0;
}

#define VIEW(s, f) {.schema = s, .infer = f, .flags = AK_OP_VIEW}

static const struct ak_op rows[] = {
    VIEW("aten.slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", infer_slice),
    VIEW("aten.select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", infer_select),
    VIEW("aten.narrow.default(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", infer_narrow),
    VIEW("aten.split.Tensor(Tensor(a) self, SymInt split_size, int dim=0) -> Tensor(a)[]", infer_split),
    VIEW("aten.split.sizes(Tensor(a) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", infer_split_sizes),
    VIEW("aten.split_with_sizes.default(Tensor(a) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", infer_split_sizes),
    VIEW("aten.chunk.default(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]", infer_chunk),
    VIEW("aten.tensor_split.sections(Tensor(a) self, SymInt sections, int dim=0) -> Tensor(a)[]", infer_tensor_split),
    VIEW("aten.unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]", infer_unbind),
};
AK_ROWS(ak_ops_slice, rows);
