/* Ops that see the same storage with other shapes and strides. Outputs here are often more row-major than
 * PyTorch's (a pointwise op never keeps permuted strides), and the other way round for attention, so
 * view, like reshape, copies where the strides do not allow a view, instead of failing. */
#include <string.h>

#include "walk.h"

#define TENSOR(c, t, i, err)                                                                                           \
    const struct ak_tensor *t = ak_arg(c, i);                                                                          \
    if (!t) return ak_bad(err, "argument '%s' is not a tensor", c->op->args[i].name)

static int run_copy(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    ak_copy_reshaped(&c->out[0], ak_arg(c, 0));
    return 0;
}

/* Fills in the one -1 and checks the count. */
static int complete(const struct ak_tensor *t, int n, int64_t *shape, struct ak_err *err) {
    int64_t known = 1, total = ak_numel(t);
    int hole = -1;
    for (int i = 0; i < n; i++) {
        if (shape[i] == -1 && hole >= 0) return ak_bad(err, "two sizes are -1");
        if (shape[i] < -1) return ak_bad(err, "size %lld is negative", (long long)shape[i]);
        if (shape[i] == -1)
            hole = i;
        else if (__builtin_mul_overflow(known, shape[i], &known))
            return ak_bad(err, "the sizes overflow");
    }
    if (hole >= 0) {
        if (known == 0 || total % known) return ak_bad(err, "-1 does not come out whole for %lld elements", (long long)total);
        shape[hole] = total / known;
    } else if (known != total) {
        return ak_bad(err, "%lld elements do not fill a shape of %lld", (long long)total, (long long)known);
    }
    return 0;
}

static int reshaped(struct ak_opcall *c, const struct ak_tensor *t, int n, const int64_t *shape) {
    struct ak_tensor v;
    if (ak_tensor_view(t, n, shape, &v)) return ak_out_view(c, 0, &v);
    return ak_out(c, t->dtype, n, shape);
}

static int infer_view(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int64_t shape[AK_MAX_DIMS];
    int n;
    if (ak_list(c, 1, &n, shape, err) || complete(t, n, shape, err)) return -1;
    return reshaped(c, t, n, shape);
}

static int infer_view_dtype(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    struct ak_tensor v = *t;
    v.dtype = ak_dtype_or(c, 1, t->dtype);
    if (ak_dtype_size(v.dtype) != ak_dtype_size(t->dtype)) return ak_bad(err, "the dtypes differ in size");
    return ak_out_view(c, 0, &v);
}

static int infer_view_as(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    TENSOR(c, o, 1, err);
    int64_t shape[AK_MAX_DIMS];
    memcpy(shape, o->shape, sizeof shape);
    if (complete(t, o->ndim, shape, err)) return -1;
    return reshaped(c, t, o->ndim, shape);
}

static int infer_flatten(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int a, b, n = 0;
    int64_t shape[AK_MAX_DIMS], product = 1;
    if (ak_dim(ak_int(c, 1), t->ndim, &a, err) || ak_dim(ak_int(c, 2), t->ndim, &b, err)) return -1;
    if (a > b) return ak_bad(err, "start_dim lies after end_dim");
    if (t->ndim == 0) return reshaped(c, t, 1, &product);
    for (int i = 0; i < t->ndim; i++) {
        if (i >= a && i <= b)
            product *= t->shape[i];
        else
            shape[n++] = t->shape[i];
        if (i == b) shape[n++] = product;
    }
    return reshaped(c, t, n, shape);
}

static int infer_unflatten(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int64_t sizes[AK_MAX_DIMS], shape[2 * AK_MAX_DIMS];
    int d, k, n = 0;
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err) || ak_list(c, 2, &k, sizes, err)) return -1;
    if (t->ndim == 0 || t->ndim - 1 + k > AK_MAX_DIMS) return ak_bad(err, "more than %d dims", AK_MAX_DIMS);
    struct ak_tensor one = ak_tensor_new(t->dtype, 1, &t->shape[d]);
    if (complete(&one, k, sizes, err)) return -1;
    for (int i = 0; i < t->ndim; i++) {
        if (i != d) shape[n++] = t->shape[i];
        for (int j = 0; i == d && j < k; j++)
            shape[n++] = sizes[j];
    }
    return reshaped(c, t, n, shape);
}

/* The dims of t in the order given. */
static int permuted(struct ak_opcall *c, const struct ak_tensor *t, const int *order) {
    struct ak_tensor v = *t;
    for (int i = 0; i < t->ndim; i++) {
        v.shape[i] = t->shape[order[i]];
        v.stride[i] = t->stride[order[i]];
    }
    return ak_out_view(c, 0, &v);
}

static int infer_permute(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int64_t dims[AK_MAX_DIMS];
    int n, order[AK_MAX_DIMS];
    unsigned seen = 0;
    if (ak_list(c, 1, &n, dims, err)) return -1;
    if (n != t->ndim) return ak_bad(err, "%d dims given for rank %d", n, t->ndim);
    for (int i = 0; i < n; i++) {
        if (ak_dim(dims[i], n, &order[i], err)) return -1;
        if (seen >> order[i] & 1) return ak_bad(err, "dim %d appears twice", order[i]);
        seen |= 1u << order[i];
    }
    return permuted(c, t, order);
}

static int swapped(struct ak_opcall *c, int64_t a, int64_t b, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int i, j, order[AK_MAX_DIMS];
    if (ak_dim(a, t->ndim, &i, err) || ak_dim(b, t->ndim, &j, err)) return -1;
    for (int k = 0; k < t->ndim; k++)
        order[k] = k == i ? j : k == j ? i : k;
    return permuted(c, t, order);
}
static int infer_transpose(struct ak_opcall *c, struct ak_err *err) { return swapped(c, ak_int(c, 1), ak_int(c, 2), err); }
static int infer_t(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    if (t->ndim > 2) return ak_bad(err, "rank 2 or less is wanted");
    return t->ndim < 2 ? ak_out_view(c, 0, t) : swapped(c, 0, 1, err);
}
static int infer_mT(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    return t->ndim < 2 ? ak_bad(err, "rank 2 or more is wanted") : swapped(c, -2, -1, err);
}
static int infer_T(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int order[AK_MAX_DIMS];
    for (int k = 0; k < t->ndim; k++)
        order[k] = t->ndim - 1 - k;
    return permuted(c, t, order);
}

static int infer_movedim(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int64_t from[AK_MAX_DIMS], to[AK_MAX_DIMS];
    int n, m, order[AK_MAX_DIMS], a, b, next = 0;
    unsigned taken = 0;
    if (ak_list(c, 1, &n, from, err) || ak_list(c, 2, &m, to, err)) return -1;
    if (n != m) return ak_bad(err, "source and destination differ in length");
    for (int i = 0; i < t->ndim; i++)
        order[i] = -1;
    for (int i = 0; i < n; i++) {
        if (ak_dim(from[i], t->ndim, &a, err) || ak_dim(to[i], t->ndim, &b, err)) return -1;
        if (taken >> a & 1 || (t->ndim && order[b] >= 0)) return ak_bad(err, "a dim appears twice");
        taken |= 1u << a;
        order[b] = a;
    }
    for (int i = 0; i < t->ndim; i++) {
        if (order[i] >= 0) continue;
        while (taken >> next & 1)
            next++;
        order[i] = next++;
    }
    return permuted(c, t, order);
}

static int infer_unsqueeze(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int d;
    if (t->ndim == AK_MAX_DIMS) return ak_bad(err, "more than %d dims", AK_MAX_DIMS);
    if (ak_dim(ak_int(c, 1), t->ndim + 1, &d, err)) return -1;
    struct ak_tensor v = *t;
    for (int i = t->ndim; i > d; i--) {
        v.shape[i] = t->shape[i - 1];
        v.stride[i] = t->stride[i - 1];
    }
    v.stride[d] = d < t->ndim ? t->shape[d] * t->stride[d] : 1;
    v.shape[d] = 1;
    v.ndim++;
    return ak_out_view(c, 0, &v);
}

static int squeezed(struct ak_opcall *c, const struct ak_tensor *t, unsigned set) {
    struct ak_tensor v = *t;
    v.ndim = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (set >> i & 1 && t->shape[i] == 1) continue;
        v.shape[v.ndim] = t->shape[i];
        v.stride[v.ndim++] = t->stride[i];
    }
    return ak_out_view(c, 0, &v);
}
static int infer_squeeze(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    return squeezed(c, t, ~0u);
}
static int infer_squeeze_dims(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    unsigned set;
    if (ak_dim_set(c, 1, t->ndim, &set, err)) return -1;
    if (c->in[1].kind == AK_VAL_INTS && c->in[1].ints.n == 0) set = 0;
    return squeezed(c, t, set);
}

static int expanded(struct ak_opcall *c, const struct ak_tensor *t, int n, int64_t *shape, struct ak_err *err) {
    int lead = n - t->ndim;
    if (lead < 0) return ak_bad(err, "%d sizes given for rank %d", n, t->ndim);
    for (int i = 0; i < n; i++) {
        if (shape[i] == -1 && i >= lead) shape[i] = t->shape[i - lead];
        if (shape[i] < 0 || (i >= lead && t->shape[i - lead] != shape[i] && t->shape[i - lead] != 1))
            return ak_bad(err, "size %lld does not fit dim %d", (long long)shape[i], i);
    }
    struct ak_tensor v = ak_expanded(t, n, shape);
    return ak_out_view(c, 0, &v);
}
static int infer_expand(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int64_t shape[AK_MAX_DIMS];
    int n;
    return ak_list(c, 1, &n, shape, err) ? -1 : expanded(c, t, n, shape, err);
}
static int infer_expand_as(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    TENSOR(c, o, 1, err);
    int64_t shape[AK_MAX_DIMS];
    memcpy(shape, o->shape, sizeof shape);
    return expanded(c, t, o->ndim, shape, err);
}

static int infer_alias(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    return ak_out_view(c, 0, t);
}

static int infer_contiguous(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    return ak_is_contiguous(t) ? ak_out_view(c, 0, t) : ak_infer_same(c, err);
}

static int infer_as_strided(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    struct ak_tensor v = {.dtype = t->dtype, .data = t->data, .offset = ak_none(c, 3) ? t->offset : ak_int(c, 3)};
    int m;
    if (ak_list(c, 1, &v.ndim, v.shape, err) || ak_list(c, 2, &m, v.stride, err)) return -1;
    if (m != v.ndim) return ak_bad(err, "%d sizes but %d strides", v.ndim, m);
    int64_t reach = ak_extent(&v);
    if (reach < 0 || reach > ak_extent(t)) return ak_bad(err, "it reaches outside its input");
    return ak_out_view(c, 0, &v);
}

/* Windows along a dim become a last dim. */
static int infer_unfold(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int d;
    int64_t size = ak_int(c, 2), step = ak_int(c, 3);
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    if (t->ndim == 0 || t->ndim == AK_MAX_DIMS || step <= 0 || size < 0 || size > t->shape[d])
        return ak_bad(err, "windows of %lld in steps of %lld do not fit", (long long)size, (long long)step);
    struct ak_tensor v = *t;
    v.shape[v.ndim] = size;
    v.stride[v.ndim++] = t->stride[d];
    v.shape[d] = (t->shape[d] - size) / step + 1;
    if (__builtin_mul_overflow(v.stride[d], step, &v.stride[d])) return ak_bad(err, "a step of %lld is too large", (long long)step);
    return ak_out_view(c, 0, &v);
}

static int infer_diagonal(struct ak_opcall *c, struct ak_err *err) {
    TENSOR(c, t, 0, err);
    int a, b;
    int64_t k = ak_int(c, 1);
    if (ak_dim(ak_int(c, 2), t->ndim, &a, err) || ak_dim(ak_int(c, 3), t->ndim, &b, err)) return -1;
    if (t->ndim < 2 || a == b) return ak_bad(err, "a diagonal needs two dims");
    struct ak_tensor v = {.dtype = t->dtype, .data = t->data, .offset = t->offset};
    for (int i = 0; i < t->ndim; i++)
        if (i != a && i != b) {
            v.shape[v.ndim] = t->shape[i];
            v.stride[v.ndim++] = t->stride[i];
        }
    int64_t rows = t->shape[a] + (k < 0 ? k : 0), cols = t->shape[b] - (k > 0 ? k : 0), n = rows < cols ? rows : cols;
    if (n > 0) v.offset += k < 0 ? -k * t->stride[a] : k * t->stride[b];
    v.shape[v.ndim] = n > 0 ? n : 0;
    v.stride[v.ndim++] = t->stride[a] + t->stride[b];
    return ak_out_view(c, 0, &v);
}

#define VIEW(s, f) {.schema = s, .infer = f, .run = run_copy, .flags = AK_OP_VIEW}

static const struct ak_op rows[] = {
    VIEW("aten.view.default(Tensor(a) self, SymInt[] size) -> Tensor(a)", infer_view),
    VIEW("aten.view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", infer_view_dtype),
    VIEW("aten._unsafe_view.default(Tensor self, SymInt[] size) -> Tensor", infer_view),
    VIEW("aten.reshape.default(Tensor(a) self, SymInt[] shape) -> Tensor(a)", infer_view),
    VIEW("aten.view_as.default(Tensor(a) self, Tensor other) -> Tensor(a)", infer_view_as),
    VIEW("aten.reshape_as.default(Tensor(a) self, Tensor other) -> Tensor(a)", infer_view_as),
    VIEW("aten.flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", infer_flatten),
    VIEW("aten.unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", infer_unflatten),
    VIEW("aten.permute.default(Tensor(a) self, int[] dims) -> Tensor(a)", infer_permute),
    VIEW("aten.transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", infer_transpose),
    VIEW("aten.swapaxes.default(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", infer_transpose),
    VIEW("aten.swapdims.default(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", infer_transpose),
    VIEW("aten.t.default(Tensor(a) self) -> Tensor(a)", infer_t),
    VIEW("aten.mT.default(Tensor(a) self) -> Tensor(a)", infer_mT),
    VIEW("aten.numpy_T.default(Tensor(a) self) -> Tensor(a)", infer_T),
    VIEW("aten.movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", infer_movedim),
    VIEW("aten.movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", infer_movedim),
    VIEW("aten.unsqueeze.default(Tensor(a) self, int dim) -> Tensor(a)", infer_unsqueeze),
    VIEW("aten.squeeze.default(Tensor(a) self) -> Tensor(a)", infer_squeeze),
    VIEW("aten.squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", infer_squeeze_dims),
    VIEW("aten.squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", infer_squeeze_dims),
    VIEW("aten.expand.default(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", infer_expand),
    VIEW("aten.broadcast_to.default(Tensor(a) self, SymInt[] size) -> Tensor(a)", infer_expand),
    VIEW("aten.expand_as.default(Tensor(a) self, Tensor other) -> Tensor(a)", infer_expand_as),
    VIEW("aten.alias.default(Tensor(a) self) -> Tensor(a)", infer_alias),
    VIEW("aten.detach.default(Tensor(a) self) -> Tensor(a)", infer_alias),
    VIEW("aten.lift_fresh.default(Tensor(a) self) -> Tensor(a)", infer_alias),
    VIEW("aten.lift_fresh_copy.default(Tensor self) -> Tensor", infer_alias),
    VIEW("aten.contiguous.default(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", infer_contiguous),
    VIEW("aten.as_strided.default(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
         infer_as_strided),
    VIEW("aten.unfold.default(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", infer_unfold),
    VIEW("aten.diagonal.default(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", infer_diagonal),
};
AK_ROWS(ak_ops_view, rows);
