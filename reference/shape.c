/* Views, and ops that move elements without changing them. */
#include <string.h>

#include "args.h"
#include "families.h"

static int run_copy(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    ak_copy(&c->out[0], ak_t(c, 0));
    return 0;
}

/* A copy of argument 0 row-major, or itself where it is so already. */
static int view_or_copy(struct ak_opcall *c, enum ak_dtype dtype) {
    const struct ak_tensor *t = ak_t(c, 0);
    return dtype == t->dtype ? ak_out_view(c, 0, *t) : ak_out_like(c, dtype, t);
}

/* The size list of argument i with its -1 worked out; the number of dims, or -1. */
static int sizes(const struct ak_opcall *c, size_t i, int64_t numel, int64_t *shape, struct ak_err *err) {
    size_t n = c->in[i].ints.n;
    int hole = -1;
    int64_t known = 1;
    if (n > AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "more than %d dims", AK_MAX_DIMS);
    for (size_t d = 0; d < n; d++) {
        shape[d] = c->in[i].ints.v[d];
        if (shape[d] == -1 && hole < 0)
            hole = (int)d;
        else if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known))
            return ak_fail(err, AK_EXIT_INPUT, "dim %zu cannot be %lld", d, (long long)shape[d]);
    }
    if (hole >= 0) {
        if (known == 0 || numel % known) return ak_fail(err, AK_EXIT_INPUT, "no size fits in place of -1");
        shape[hole] = numel / known;
        known *= shape[hole];
    }
    if (known != numel) return ak_fail(err, AK_EXIT_INPUT, "%lld elements do not make %lld", (long long)numel, (long long)known);
    return (int)n;
}

static int reshaped(struct ak_opcall *c, int ndim, const int64_t *shape, bool may_copy, struct ak_err *err) {
    struct ak_tensor v;
    if (ak_tensor_view(ak_t(c, 0), ndim, shape, &v)) return ak_out_view(c, 0, v);
    if (may_copy) return ak_out(c, ak_t(c, 0)->dtype, ndim, shape);
    return ak_fail(err, AK_EXIT_INPUT, "this shape is no view of the input's strides");
}

static int infer_view(struct ak_opcall *c, struct ak_err *err) {
    int64_t shape[AK_MAX_DIMS];
    int n = sizes(c, 1, ak_numel(ak_t(c, 0)), shape, err);
    return n < 0 ? -1 : reshaped(c, n, shape, false, err);
}

static int infer_reshape(struct ak_opcall *c, struct ak_err *err) {
    int64_t shape[AK_MAX_DIMS];
    int n = sizes(c, 1, ak_numel(ak_t(c, 0)), shape, err);
    return n < 0 ? -1 : reshaped(c, n, shape, true, err);
}

/* A reshape writes its output in row-major order whatever the input's strides. */
static int run_reshape(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    struct ak_tensor flat = c->out[0];
    const struct ak_tensor *t = ak_t(c, 0);
    flat.ndim = t->ndim;
    memcpy(flat.shape, t->shape, sizeof flat.shape);
    int64_t offset = flat.offset;
    ak_tensor_pack(&flat);
    flat.offset = offset;
    ak_copy(&flat, t);
    return 0;
}

static int infer_flatten(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int from = ak_dim(t, ak_int(c, 1, 0), err), to = ak_dim(t, ak_int(c, 2, -1), err), n = 0;
    int64_t shape[AK_MAX_DIMS] = {1};
    if (from < 0 || to < 0) return -1;
    if (from > to) return ak_fail(err, AK_EXIT_INPUT, "start_dim comes after end_dim");
    if (t->ndim == 0) return reshaped(c, 1, shape, true, err);
    for (int d = 0; d < t->ndim; d++) {
        if (d > from && d <= to)
            shape[n - 1] *= t->shape[d];
        else
            shape[n++] = t->shape[d];
    }
    return reshaped(c, n, shape, true, err);
}

static int infer_unflatten(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int dim = ak_dim(t, ak_int(c, 1, 0), err), n = 0;
    int64_t part[AK_MAX_DIMS], shape[AK_MAX_DIMS];
    if (dim < 0) return -1;
    int parts = sizes(c, 2, t->shape[dim], part, err);
    if (parts < 0) return -1;
    if (t->ndim - 1 + parts > AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "more than %d dims", AK_MAX_DIMS);
    for (int d = 0; d < t->ndim; d++) {
        if (d != dim) shape[n++] = t->shape[d];
        for (int k = 0; d == dim && k < parts; k++)
            shape[n++] = part[k];
    }
    return reshaped(c, n, shape, false, err);
}

static int infer_alias(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out_view(c, 0, *ak_t(c, 0));
}

/* The memory format only moves strides, which nothing but view() can tell: row-major serves for
 * all. */
static int infer_contiguous(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *t = ak_t(c, 0);
    return ak_is_contiguous(t) ? ak_out_view(c, 0, *t) : ak_out_like(c, t->dtype, t);
}

static int infer_clone(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out_like(c, ak_t(c, 0)->dtype, ak_t(c, 0));
}

static int infer_dropout(struct ak_opcall *c, struct ak_err *err) {
    if (ak_int(c, 2, 0) && ak_num(c, 1, 0) > 0) return ak_fail(err, AK_EXIT_INPUT, "the model drops at random: export it with eval()");
    return ak_out_view(c, 0, *ak_t(c, 0));
}

static int infer_to_1(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return view_or_copy(c, (enum ak_dtype)ak_int(c, 1, ak_t(c, 0)->dtype));
}
static int infer_to_2(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return view_or_copy(c, (enum ak_dtype)ak_int(c, 2, ak_t(c, 0)->dtype));
}
static int infer_to_copy(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out_like(c, (enum ak_dtype)ak_int(c, 1, ak_t(c, 0)->dtype), ak_t(c, 0));
}
static int infer_to_other(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return view_or_copy(c, ak_t(c, 1)->dtype);
}
static int infer_to_float(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return view_or_copy(c, AK_F32);
}

static int permuted(struct ak_opcall *c, const int *order) {
    const struct ak_tensor *t = ak_t(c, 0);
    struct ak_tensor v = *t;
    for (int d = 0; d < t->ndim; d++) {
        v.shape[d] = t->shape[order[d]];
        v.stride[d] = t->stride[order[d]];
    }
    return ak_out_view(c, 0, v);
}

static int infer_transpose(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int order[AK_MAX_DIMS], a = ak_dim(t, ak_int(c, 1, 0), err), b = ak_dim(t, ak_int(c, 2, 0), err);
    if (a < 0 || b < 0) return -1;
    for (int d = 0; d < AK_MAX_DIMS; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return permuted(c, order);
}

static int infer_t(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    if (t->ndim > 2) return ak_fail(err, AK_EXIT_INPUT, "wants at most two dims");
    return permuted(c, t->ndim == 2 ? (int[]){1, 0} : (int[]){0, 1});
}

static int infer_numpy_t(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    int order[AK_MAX_DIMS], n = ak_t(c, 0)->ndim;
    for (int d = 0; d < n; d++)
        order[d] = n - 1 - d;
    return permuted(c, order);
}

static int infer_permute(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int order[AK_MAX_DIMS];
    unsigned seen = 0;
    if (c->in[1].ints.n != (size_t)t->ndim) return ak_fail(err, AK_EXIT_INPUT, "wants %d dims", t->ndim);
    for (int d = 0; d < t->ndim; d++) {
        if ((order[d] = ak_dim(t, c->in[1].ints.v[d], err)) < 0) return -1;
        seen |= 1u << order[d];
    }
    if (seen != (1u << t->ndim) - 1) return ak_fail(err, AK_EXIT_INPUT, "a dim is named twice");
    return permuted(c, order);
}

static int infer_unsqueeze(struct ak_opcall *c, struct ak_err *err) {
    struct ak_tensor t = *ak_t(c, 0), v = t;
    int64_t dim = ak_int(c, 1, 0);
    if (dim < 0) dim += t.ndim + 1;
    if (dim < 0 || dim > t.ndim || t.ndim == AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "there is no place %lld", (long long)ak_int(c, 1, 0));
    v.ndim++;
    for (int d = t.ndim; d > dim; d--) {
        v.shape[d] = t.shape[d - 1];
        v.stride[d] = t.stride[d - 1];
    }
    v.shape[dim] = 1;
    v.stride[dim] = dim < t.ndim ? t.shape[dim] * t.stride[dim] : 1;
    return ak_out_view(c, 0, v);
}

static int squeezed(struct ak_opcall *c, unsigned dims) {
    const struct ak_tensor *t = ak_t(c, 0);
    struct ak_tensor v = *t;
    v.ndim = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (dims >> d & 1 && t->shape[d] == 1) continue;
        v.shape[v.ndim] = t->shape[d];
        v.stride[v.ndim++] = t->stride[d];
    }
    return ak_out_view(c, 0, v);
}
static int infer_squeeze(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return squeezed(c, ~0u);
}
static int infer_squeeze_dim(struct ak_opcall *c, struct ak_err *err) {
    int d = ak_dim(ak_t(c, 0), ak_int(c, 1, 0), err);
    return d < 0 ? -1 : squeezed(c, 1u << d);
}
static int infer_squeeze_dims(struct ak_opcall *c, struct ak_err *err) {
    unsigned dims = 0;
    for (size_t i = 0; i < c->in[1].ints.n; i++) {
        int d = ak_dim(ak_t(c, 0), c->in[1].ints.v[i], err);
        if (d < 0) return -1;
        dims |= 1u << d;
    }
    return squeezed(c, dims);
}

static int expanded(struct ak_opcall *c, int n, const int64_t *want, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int64_t shape[AK_MAX_DIMS];
    if (n > AK_MAX_DIMS || n < t->ndim) return ak_fail(err, AK_EXIT_INPUT, "cannot expand %d dims to %d", t->ndim, n);
    for (int d = 0; d < n; d++) {
        int at = d - (n - t->ndim);
        int64_t have = at < 0 ? 1 : t->shape[at];
        shape[d] = want[d] == -1 && at >= 0 ? have : want[d];
        if (shape[d] < 0 || (have != shape[d] && have != 1)) return ak_fail(err, AK_EXIT_INPUT, "dim %d of %lld does not expand to %lld", d, (long long)have, (long long)want[d]);
    }
    return ak_out_view(c, 0, ak_expand(t, n, shape));
}
static int infer_expand(struct ak_opcall *c, struct ak_err *err) { return expanded(c, (int)c->in[1].ints.n, c->in[1].ints.v, err); }
static int infer_expand_as(struct ak_opcall *c, struct ak_err *err) { return expanded(c, ak_t(c, 1)->ndim, ak_t(c, 1)->shape, err); }

static int infer_broadcast_tensors(struct ak_opcall *c, struct ak_err *err) {
    int64_t shape[AK_MAX_DIMS];
    int n = ak_broadcast(c->in[0].ts.v, c->in[0].ts.n, shape, err);
    if (n < 0 || c->in[0].ts.n > AK_MAX_OUTS) return -1;
    for (size_t i = 0; i < c->in[0].ts.n; i++)
        c->out[i] = ak_tensor_new(c->in[0].ts.v[i]->dtype, n, shape);
    c->nout = c->in[0].ts.n;
    return 0;
}
static int run_broadcast_tensors(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    for (size_t i = 0; i < c->nout; i++) {
        struct ak_tensor wide = ak_expand(c->in[0].ts.v[i], c->out[i].ndim, c->out[i].shape);
        ak_copy(&c->out[i], &wide);
    }
    return 0;
}

/* Python's slice: from and to clamp to the dim; INT64_MAX means its end. */
static int64_t clamp_index(int64_t v, int64_t size) {
    if (v < 0) v = v < -size ? 0 : v + size;
    return v > size ? size : v;
}
static int infer_slice(struct ak_opcall *c, struct ak_err *err) {
    struct ak_tensor v = *ak_t(c, 0);
    int dim = ak_dim(&v, ak_int(c, 1, 0), err);
    int64_t step = ak_int(c, 4, 1);
    if (dim < 0 || v.ndim == 0) return dim < 0 ? -1 : ak_fail(err, AK_EXIT_INPUT, "a scalar has no slices");
    if (step < 1) return ak_fail(err, AK_EXIT_INPUT, "the step is %lld", (long long)step);
    int64_t from = clamp_index(ak_int(c, 2, 0), v.shape[dim]), to = clamp_index(ak_int(c, 3, INT64_MAX), v.shape[dim]);
    if (to < from) to = from;
    if (to > from) v.offset += from * v.stride[dim];
    v.shape[dim] = to > from ? (to - from - 1) / step + 1 : 0;
    if (v.shape[dim] > 1 && __builtin_mul_overflow(v.stride[dim], step, &v.stride[dim])) return ak_fail(err, AK_EXIT_INPUT, "the step is too large");
    return ak_out_view(c, 0, v);
}
static int infer_narrow(struct ak_opcall *c, struct ak_err *err) {
    struct ak_tensor v = *ak_t(c, 0);
    int dim = ak_dim(&v, ak_int(c, 1, 0), err);
    if (dim < 0) return -1;
    int64_t from = ak_int(c, 2, 0), length = ak_int(c, 3, 0);
    if (from < 0) from += v.shape[dim];
    if (from < 0 || length < 0 || from > v.shape[dim] || length > v.shape[dim] - from) return ak_fail(err, AK_EXIT_INPUT, "the piece lies outside the dim");
    v.offset += from * v.stride[dim];
    v.shape[dim] = length;
    return ak_out_view(c, 0, v);
}
static struct ak_tensor selected(const struct ak_tensor *t, int dim, int64_t at) {
    struct ak_tensor v = *t;
    v.offset += at * t->stride[dim];
    v.ndim--;
    for (int d = dim; d < v.ndim; d++) {
        v.shape[d] = t->shape[d + 1];
        v.stride[d] = t->stride[d + 1];
    }
    return v;
}
static int infer_select(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int dim = ak_dim(t, ak_int(c, 1, 0), err);
    if (dim < 0 || t->ndim == 0) return dim < 0 ? -1 : ak_fail(err, AK_EXIT_INPUT, "a scalar has no elements to select");
    int64_t at = ak_int(c, 2, 0);
    if (at < 0) at += t->shape[dim];
    if (at < 0 || at >= t->shape[dim]) return ak_fail(err, AK_EXIT_INPUT, "index %lld lies outside the dim", (long long)ak_int(c, 2, 0));
    return ak_out_view(c, 0, selected(t, dim, at));
}
static int infer_unbind(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int dim = ak_dim(t, ak_int(c, 1, 0), err);
    if (dim < 0) return -1;
    if (t->ndim == 0 || t->shape[dim] > AK_MAX_OUTS) return ak_fail(err, AK_EXIT_INPUT, "more than %d pieces", AK_MAX_OUTS);
    c->nout = (size_t)t->shape[dim];
    for (size_t i = 0; i < c->nout; i++) {
        c->out[i] = selected(t, dim, (int64_t)i);
        c->alias[i] = 1;
    }
    return 0;
}

/* Pieces of the given lengths along dim. */
static int pieces(struct ak_opcall *c, int dim, const int64_t *length, size_t n, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    int64_t at = 0;
    if (n > AK_MAX_OUTS) return ak_fail(err, AK_EXIT_INPUT, "more than %d pieces", AK_MAX_OUTS);
    for (size_t i = 0; i < n; i++) {
        c->out[i] = *t;
        c->out[i].offset += at * t->stride[dim];
        c->out[i].shape[dim] = length[i];
        c->alias[i] = 1;
        if (length[i] < 0 || length[i] > t->shape[dim] - at) return ak_fail(err, AK_EXIT_INPUT, "the pieces do not make the dim");
        at += length[i];
    }
    c->nout = n;
    return at == t->shape[dim] ? 0 : ak_fail(err, AK_EXIT_INPUT, "the pieces do not make the dim");
}
static int even_pieces(struct ak_opcall *c, int dim, int64_t each, struct ak_err *err) {
    int64_t size = ak_t(c, 0)->shape[dim], length[AK_MAX_OUTS];
    size_t n = 0;
    if (each < 1 && size > 0) return ak_fail(err, AK_EXIT_INPUT, "the pieces would be empty");
    for (int64_t at = 0; at < size || n == 0; at += each) {
        if (n == AK_MAX_OUTS) return ak_fail(err, AK_EXIT_INPUT, "more than %d pieces", AK_MAX_OUTS);
        length[n++] = size - at < each ? size - at : each;
    }
    return pieces(c, dim, length, n, err);
}
static int infer_split(struct ak_opcall *c, struct ak_err *err) {
    int dim = ak_dim(ak_t(c, 0), ak_int(c, 2, 0), err);
    return dim < 0 ? -1 : even_pieces(c, dim, ak_int(c, 1, 0), err);
}
static int infer_split_sizes(struct ak_opcall *c, struct ak_err *err) {
    int dim = ak_dim(ak_t(c, 0), ak_int(c, 2, 0), err);
    return dim < 0 ? -1 : pieces(c, dim, c->in[1].ints.v, c->in[1].ints.n, err);
}
static int infer_chunk(struct ak_opcall *c, struct ak_err *err) {
    int dim = ak_dim(ak_t(c, 0), ak_int(c, 2, 0), err);
    int64_t n = ak_int(c, 1, 1);
    if (dim < 0) return -1;
    if (n < 1) return ak_fail(err, AK_EXIT_INPUT, "wants a positive number of chunks");
    return even_pieces(c, dim, (ak_t(c, 0)->shape[dim] + n - 1) / n, err);
}

static int infer_as_strided(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    struct ak_tensor v = *t;
    size_t n = c->in[1].ints.n;
    if (n > AK_MAX_DIMS || c->in[2].ints.n != n) return ak_fail(err, AK_EXIT_INPUT, "size and stride differ in length");
    v.ndim = (int)n;
    memcpy(v.shape, c->in[1].ints.v, n * sizeof *v.shape);
    memcpy(v.stride, c->in[2].ints.v, n * sizeof *v.stride);
    v.offset = ak_int(c, 3, t->offset);
    if (ak_extent(&v) < 0 || ak_extent(&v) > ak_extent(t)) return ak_fail(err, AK_EXIT_INPUT, "reaches outside its input");
    return ak_out_view(c, 0, v);
}

/* unfold(self, dim, size, step): sliding windows as a new last dim, a view. */
static int infer_unfold(struct ak_opcall *c, struct ak_err *err) {
    struct ak_tensor v = *ak_t(c, 0);
    int dim = ak_dim(&v, ak_int(c, 1, 0), err);
    int64_t size = ak_int(c, 2, 0), step = ak_int(c, 3, 1);
    if (dim < 0) return -1;
    if (v.ndim == AK_MAX_DIMS || size < 0 || step < 1 || size > v.shape[dim]) return ak_fail(err, AK_EXIT_INPUT, "no such windows");
    v.shape[v.ndim] = size;
    v.stride[v.ndim++] = v.stride[dim];
    v.shape[dim] = (v.shape[dim] - size) / step + 1;
    v.stride[dim] *= step;
    return ak_out_view(c, 0, v);
}

/* ---- joining ---- */

static bool legacy_empty(const struct ak_tensor *t) { return t->ndim == 1 && t->shape[0] == 0; } /* skipped by torch.cat whatever the others' shape */

static int infer_cat(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *first = NULL;
    size_t n = c->in[0].ts.n;
    const struct ak_tensor *const *t = c->in[0].ts.v;
    if (n == 0) return ak_fail(err, AK_EXIT_INPUT, "wants at least one tensor");
    enum ak_dtype dtype = t[0]->dtype;
    for (size_t i = 0; i < n; i++) {
        dtype = ak_promote(dtype, t[i]->dtype);
        if (!first && !legacy_empty(t[i])) first = t[i];
    }
    if (!first) return ak_out(c, dtype, 1, (int64_t[]){0});
    int dim = ak_dim(first, ak_int(c, 1, 0), err);
    int64_t shape[AK_MAX_DIMS];
    if (dim < 0 || first->ndim == 0) return dim < 0 ? -1 : ak_fail(err, AK_EXIT_INPUT, "scalars cannot be joined");
    memcpy(shape, first->shape, sizeof shape);
    shape[dim] = 0;
    for (size_t i = 0; i < n; i++) {
        if (legacy_empty(t[i])) continue;
        for (int d = 0; d < first->ndim; d++)
            if (t[i]->ndim != first->ndim || (d != dim && t[i]->shape[d] != first->shape[d])) {
                char a[160], b[160];
                return ak_fail(err, AK_EXIT_INPUT, "%s does not fit %s", ak_tensor_describe(t[i], a), ak_tensor_describe(first, b));
            }
        shape[dim] += t[i]->shape[dim];
    }
    return ak_out(c, dtype, first->ndim, shape);
}
static int run_cat(struct ak_opcall *c, struct ak_err *err) {
    struct ak_tensor piece = c->out[0];
    int dim = ak_dim(&piece, ak_int(c, 1, 0), err);
    if (dim < 0) return -1;
    for (size_t i = 0; i < c->in[0].ts.n; i++) {
        const struct ak_tensor *t = c->in[0].ts.v[i];
        if (legacy_empty(t)) continue;
        piece.shape[dim] = t->shape[dim];
        ak_copy(&piece, t);
        piece.offset += t->shape[dim] * piece.stride[dim];
    }
    return 0;
}

static int infer_stack(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *const *t = c->in[0].ts.v;
    size_t n = c->in[0].ts.n;
    if (n == 0) return ak_fail(err, AK_EXIT_INPUT, "wants at least one tensor");
    enum ak_dtype dtype = t[0]->dtype;
    int64_t shape[AK_MAX_DIMS], dim = ak_int(c, 1, 0);
    if (dim < 0) dim += t[0]->ndim + 1;
    if (dim < 0 || dim > t[0]->ndim || t[0]->ndim == AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "there is no place %lld", (long long)dim);
    for (size_t i = 0; i < n; i++) {
        dtype = ak_promote(dtype, t[i]->dtype);
        if (!ak_same_shape(t[i], t[0])) return ak_fail(err, AK_EXIT_INPUT, "tensor %zu has another shape than the first", i);
    }
    for (int d = 0; d <= t[0]->ndim; d++)
        shape[d] = d < dim ? t[0]->shape[d] : d == dim ? (int64_t)n : t[0]->shape[d - 1];
    return ak_out(c, dtype, t[0]->ndim + 1, shape);
}
static int run_stack(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    int64_t dim = ak_int(c, 1, 0);
    if (dim < 0) dim += c->out[0].ndim;
    for (size_t i = 0; i < c->in[0].ts.n; i++) {
        struct ak_tensor piece = selected(&c->out[0], (int)dim, (int64_t)i);
        ak_copy(&piece, c->in[0].ts.v[i]);
    }
    return 0;
}

/* repeat(self, repeats): each copy is a place in the output. */
static int infer_repeat(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    size_t n = c->in[1].ints.n;
    int64_t shape[AK_MAX_DIMS];
    if (n > AK_MAX_DIMS || n < (size_t)t->ndim) return ak_fail(err, AK_EXIT_INPUT, "wants a repeat for each dim");
    for (size_t d = 0; d < n; d++) {
        int at = (int)d - ((int)n - t->ndim);
        if (c->in[1].ints.v[d] < 0 || __builtin_mul_overflow(c->in[1].ints.v[d], at < 0 ? 1 : t->shape[at], &shape[d]))
            return ak_fail(err, AK_EXIT_INPUT, "repeats dim %zu %lld times", d, (long long)c->in[1].ints.v[d]);
    }
    return ak_out(c, t->dtype, (int)n, shape);
}
static int run_repeat(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *out = &c->out[0], *t = ak_t(c, 0);
    /* the output as [r0, s0, r1, s1, ...] would pass AK_MAX_DIMS: walk the repeats by hand */
    int64_t copies = 1;
    for (size_t d = 0; d < c->in[1].ints.n; d++)
        copies *= c->in[1].ints.v[d];
    for (int64_t k = 0; k < copies && ak_numel(out); k++) {
        struct ak_tensor place = *out;
        int64_t left = k;
        for (int d = out->ndim - 1; d >= 0; d--) {
            int at = d - (out->ndim - t->ndim);
            place.shape[d] = at < 0 ? 1 : t->shape[at];
            place.offset += left % c->in[1].ints.v[d] * place.shape[d] * out->stride[d];
            left /= c->in[1].ints.v[d];
        }
        struct ak_tensor wide = ak_expand(t, place.ndim, place.shape);
        ak_copy(&place, &wide);
    }
    return 0;
}

/* One row at a time along `dim`: out[..., i, ...] = in[..., from(i), ...]. */
static int run_flip(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    unsigned dims = 0;
    for (size_t i = 0; i < c->in[1].ints.n; i++) {
        int d = ak_dim(t, c->in[1].ints.v[i], err);
        if (d < 0) return -1;
        dims |= 1u << d;
    }
    int64_t n = ak_numel(t);
    for (int64_t k = 0; k < n; k++) {
        int64_t to = c->out[0].offset, from = t->offset, left = k;
        for (int d = t->ndim - 1; d >= 0; d--) {
            int64_t i = left % t->shape[d];
            left /= t->shape[d];
            to += i * c->out[0].stride[d];
            from += (dims >> d & 1 ? t->shape[d] - 1 - i : i) * t->stride[d];
        }
        if (ak_dtype_is_float(t->dtype))
            ak_store(t->dtype, c->out[0].data, to, ak_load(t->dtype, t->data, from));
        else
            ak_store_i64(t->dtype, c->out[0].data, to, ak_load_i64(t->dtype, t->data, from));
    }
    return 0;
}

/* pad = (left, right) of the last dim, then of the one before, ...; negative pads crop. */
static int infer_pad(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0);
    size_t n = c->in[1].ints.n;
    int64_t shape[AK_MAX_DIMS];
    if (n % 2 || n / 2 > (size_t)t->ndim) return ak_fail(err, AK_EXIT_INPUT, "pads come in pairs, at most one a dim");
    memcpy(shape, t->shape, sizeof shape);
    for (size_t i = 0; i < n; i++)
        shape[t->ndim - 1 - (int)(i / 2)] += c->in[1].ints.v[i];
    for (int d = 0; d < t->ndim; d++)
        if (shape[d] < 0) return ak_fail(err, AK_EXIT_INPUT, "dim %d would have %lld elements", d, (long long)shape[d]);
    return ak_out(c, t->dtype, t->ndim, shape);
}
static int infer_pad_mode(struct ak_opcall *c, struct ak_err *err) {
    if (strcmp(c->in[2].s, "constant")) return ak_fail(err, AK_EXIT_INPUT, "mode '%s' is not done", c->in[2].s);
    return infer_pad(c, err);
}
static int padded(struct ak_opcall *c, double value) {
    struct ak_tensor in = *ak_t(c, 0), out = c->out[0];
    struct ak_tensor fill = ak_tensor_new(AK_F64, 0, NULL);
    fill.data = &value;
    struct ak_tensor wide = ak_expand(&fill, out.ndim, out.shape);
    ak_copy(&out, &wide);
    for (size_t i = 0; i < c->in[1].ints.n; i++) {
        int d = in.ndim - 1 - (int)(i / 2);
        int64_t pad = c->in[1].ints.v[i];
        if (pad >= 0) {
            if (i % 2 == 0) out.offset += pad * out.stride[d];
            out.shape[d] -= pad;
        } else {
            if (i % 2 == 0) in.offset -= pad * in.stride[d];
            in.shape[d] += pad;
        }
    }
    for (int d = 0; d < in.ndim; d++)
        if (in.shape[d] <= 0) return 0;
    ak_copy(&out, &in);
    return 0;
}
static int run_pad(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return padded(c, ak_num(c, 2, 0));
}
static int run_pad_mode(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return padded(c, ak_num(c, 3, 0));
}

/* triu, tril: what lies on the wrong side of the diagonal is zero. */
static int triangle(struct ak_opcall *c, bool upper, struct ak_err *err) {
    const struct ak_tensor *t = ak_t(c, 0), *o = &c->out[0];
    int64_t k = ak_int(c, 1, 0), n = ak_numel(t);
    if (t->ndim < 2) return ak_fail(err, AK_EXIT_INPUT, "wants a matrix");
    ak_copy(o, t);
    for (int64_t e = 0; e < n; e++) {
        int64_t col = e % t->shape[t->ndim - 1], row = e / t->shape[t->ndim - 1] % t->shape[t->ndim - 2];
        if (upper ? col - row < k : col - row > k) ak_set(o, e, 0);
    }
    return 0;
}
static int run_triu(struct ak_opcall *c, struct ak_err *err) { return triangle(c, true, err); }
static int run_tril(struct ak_opcall *c, struct ak_err *err) { return triangle(c, false, err); }

static int infer_nothing(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    c->nout = 0;
    return 0;
}

#define V AK_OP_VIEW
#define VIEW(schema, infer) {"aten." schema " -> Tensor", infer, NULL, V, NULL, NULL}
#define MAYBE(schema, infer, run) {"aten." schema " -> Tensor", infer, run, V, NULL, NULL}
#define COPY(schema, infer, run) {"aten." schema " -> Tensor", infer, run, 0, NULL, NULL}

static const struct ak_op_row table[] = {
    VIEW("view.default(Tensor self, int[] size)", infer_view),
    MAYBE("_unsafe_view.default(Tensor self, int[] size)", infer_reshape, run_reshape),
    MAYBE("reshape.default(Tensor self, int[] shape)", infer_reshape, run_reshape),
    MAYBE("flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1)", infer_flatten, run_reshape),
    VIEW("unflatten.int(Tensor self, int dim, int[] sizes)", infer_unflatten),
    VIEW("alias.default(Tensor self)", infer_alias), VIEW("detach.default(Tensor self)", infer_alias),
    {"aten.detach_.default(Tensor self) -> Tensor", infer_alias, NULL, V | AK_OP_INPLACE, "aten.detach.default", NULL},
    MAYBE("contiguous.default(Tensor self, *, MemoryFormat memory_format=1)", infer_contiguous, run_copy),
    COPY("clone.default(Tensor self, *, MemoryFormat? memory_format=None)", infer_clone, run_copy),
    COPY("lift_fresh_copy.default(Tensor self)", infer_clone, run_copy),
    VIEW("dropout.default(Tensor input, float p, bool train)", infer_dropout),
    VIEW("feature_dropout.default(Tensor input, float p, bool train)", infer_dropout),
    {"aten.dropout_.default(Tensor input, float p, bool train) -> Tensor", infer_dropout, NULL, V | AK_OP_INPLACE, "aten.dropout.default", NULL},
    MAYBE("to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)", infer_to_1, run_copy),
    MAYBE("to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)", infer_to_2, run_copy),
    MAYBE("to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, "
          "bool copy=False, MemoryFormat? memory_format=None)", infer_to_1, run_copy),
    MAYBE("to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)", infer_to_other, run_copy),
    COPY("_to_copy.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, "
         "MemoryFormat? memory_format=None)", infer_to_copy, run_copy),
    MAYBE("type_as.default(Tensor self, Tensor other)", infer_to_other, run_copy), MAYBE("float.default(Tensor self)", infer_to_float, run_copy),
    VIEW("transpose.int(Tensor self, int dim0, int dim1)", infer_transpose), VIEW("t.default(Tensor self)", infer_t),
    VIEW("numpy_T.default(Tensor self)", infer_numpy_t), VIEW("permute.default(Tensor self, int[] dims)", infer_permute),
    VIEW("unsqueeze.default(Tensor self, int dim)", infer_unsqueeze), VIEW("squeeze.default(Tensor self)", infer_squeeze),
    VIEW("squeeze.dim(Tensor self, int dim)", infer_squeeze_dim), VIEW("squeeze.dims(Tensor self, int[] dim)", infer_squeeze_dims),
    VIEW("expand.default(Tensor self, int[] size, *, bool implicit=False)", infer_expand), VIEW("expand_as.default(Tensor self, Tensor other)", infer_expand_as),
    {"aten.broadcast_tensors.default(Tensor[] tensors) -> Tensor[]", infer_broadcast_tensors, run_broadcast_tensors, 0, NULL, NULL},
    VIEW("slice.Tensor(Tensor self, int dim=0, int? start=None, int? end=None, int step=1)", infer_slice),
    VIEW("narrow.default(Tensor self, int dim, int start, int length)", infer_narrow), VIEW("select.int(Tensor self, int dim, int index)", infer_select),
    {"aten.unbind.int(Tensor self, int dim=0) -> Tensor[]", infer_unbind, NULL, V, NULL, NULL},
    {"aten.split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]", infer_split, NULL, V, NULL, NULL},
    {"aten.split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]", infer_split_sizes, NULL, V, NULL, NULL},
    {"aten.split_with_sizes.default(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", infer_split_sizes, NULL, V, NULL, NULL},
    {"aten.chunk.default(Tensor self, int chunks, int dim=0) -> Tensor[]", infer_chunk, NULL, V, NULL, NULL},
    VIEW("as_strided.default(Tensor self, int[] size, int[] stride, int? storage_offset=None)", infer_as_strided),
    VIEW("unfold.default(Tensor self, int dimension, int size, int step)", infer_unfold),
    COPY("cat.default(Tensor[] tensors, int dim=0)", infer_cat, run_cat), COPY("stack.default(Tensor[] tensors, int dim=0)", infer_stack, run_stack),
    COPY("repeat.default(Tensor self, int[] repeats)", infer_repeat, run_repeat), COPY("flip.default(Tensor self, int[] dims)", infer_clone, run_flip),
    COPY("constant_pad_nd.default(Tensor self, int[] pad, Scalar value=0)", infer_pad, run_pad),
    COPY("pad.default(Tensor self, int[] pad, str mode=\"constant\", float? value=None)", infer_pad_mode, run_pad_mode),
    COPY("triu.default(Tensor self, int diagonal=0)", infer_clone, run_triu), COPY("tril.default(Tensor self, int diagonal=0)", infer_clone, run_tril),
    {"aten._assert_tensor_metadata.default(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()", infer_nothing, NULL, AK_OP_EFFECT, NULL, NULL},
};
AK_FAMILY(ak_family_shape, table);
