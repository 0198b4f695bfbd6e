/* Tensors made from numbers. */
#include <math.h>
#include <stdlib.h>

#include "walk.h"

/* ---- filled ---- */

static int sized(struct ak_opcall *c, size_t size, enum ak_dtype dtype, struct ak_err *err) {
    int64_t shape[AK_MAX_DIMS];
    int n;
    if (ak_list(c, size, &n, shape, err)) return -1;
    for (int i = 0; i < n; i++)
        if (shape[i] < 0) return ak_bad(err, "size %lld is negative", (long long)shape[i]);
    return ak_out(c, dtype, n, shape);
}

static enum ak_dtype number_dtype(const struct ak_opcall *c, size_t i) { return ak_result_type(c, i, 1); }

/* zeros(size, *, dtype), new_zeros(self, size, *, dtype), zeros_like(self, *, dtype) */
static int infer_sized(struct ak_opcall *c, struct ak_err *err) { return sized(c, 0, ak_dtype_or(c, 1, AK_F32), err); }
static int infer_new(struct ak_opcall *c, struct ak_err *err) { return sized(c, 1, ak_dtype_or(c, 2, ak_result_type(c, 0, 1)), err); }
static int infer_like(struct ak_opcall *c, struct ak_err *err) {
    return ak_out_broadcast(c, 0, 1, (int)ak_dtype_or(c, 1, ak_result_type(c, 0, 1)), err);
}
/* full(size, value, *, dtype), new_full(self, size, value, *, dtype), full_like(self, value, *, dtype) */
static int infer_full(struct ak_opcall *c, struct ak_err *err) { return sized(c, 0, ak_dtype_or(c, 2, number_dtype(c, 1)), err); }
static int infer_new_full(struct ak_opcall *c, struct ak_err *err) { return sized(c, 1, ak_dtype_or(c, 3, ak_result_type(c, 0, 1)), err); }
static int infer_full_like(struct ak_opcall *c, struct ak_err *err) {
    return ak_out_broadcast(c, 0, 1, (int)ak_dtype_or(c, 2, ak_result_type(c, 0, 1)), err);
}
static int infer_fill(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *value = ak_arg(c, 1);
    if (value && value->ndim) return ak_bad(err, "the value has dimensions");
    return ak_infer_same(c, err);
}
static int infer_scalar(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out(c, ak_dtype_or(c, 1, AK_F32), 0, NULL);
}

static int fill(struct ak_opcall *c, size_t value) {
    const struct ak_tensor *t = ak_arg(c, value);
    if (t)
        ak_copy(&c->out[0], t);
    else
        ak_fill(&c->out[0], ak_num(c, value), ak_int(c, value));
    return 0;
}

#define RUN(name, what)                                                                                                \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        what;                                                                                                          \
        return 0;                                                                                                      \
    }
RUN(zeros, ak_fill(&c->out[0], 0, 0))
RUN(ones, ak_fill(&c->out[0], 1, 1))
RUN(full, fill(c, 1))
RUN(new_full, fill(c, 2))
RUN(scalar, fill(c, 0))

/* ---- ranges ---- */

/* arange(end), arange(start, end), arange(start, end, step): int64 unless a real takes part or dtype says otherwise. */
static int arange(struct ak_opcall *c, size_t nums, struct ak_err *err) {
    bool real = false;
    for (size_t i = 0; i < nums; i++)
        real |= c->in[i].kind == AK_VAL_FLOAT;
    double n;
    if (real) {
        double start = nums > 1 ? ak_num(c, 0) : 0, end = ak_num(c, nums > 1), step = nums > 2 ? ak_num(c, 2) : 1;
        n = step == 0 ? -1 : ceil((end - start) / step);
    } else {
        int64_t start = nums > 1 ? ak_int(c, 0) : 0, end = ak_int(c, nums > 1), step = nums > 2 ? ak_int(c, 2) : 1, span;
        if (step == 0 || __builtin_sub_overflow(end, start, &span)) return ak_bad(err, "the range is without end");
        n = span != 0 && (span > 0) != (step > 0) ? -1 : (double)(span / step + (span % step != 0));
    }
    if (!(n >= 0 && n < 0x1p62)) return ak_bad(err, "the range runs against its step");
    int64_t shape = (int64_t)n;
    return ak_out(c, ak_dtype_or(c, nums, real ? AK_F32 : AK_I64), 1, &shape);
}
static int infer_arange1(struct ak_opcall *c, struct ak_err *err) { return arange(c, 1, err); }
static int infer_arange2(struct ak_opcall *c, struct ak_err *err) { return arange(c, 2, err); }
static int infer_arange3(struct ak_opcall *c, struct ak_err *err) { return arange(c, 3, err); }

static int run_range(struct ak_opcall *c, size_t nums) {
    const struct ak_tensor *o = &c->out[0];
    static const struct ak_val zero = {.kind = AK_VAL_INT}, one = {.kind = AK_VAL_INT, .i = 1};
    struct ak_opcall v = {.in = {nums > 1 ? c->in[0] : zero, nums > 2 ? c->in[2] : one}};
    for (int64_t i = 0; i < o->shape[0]; i++) {
        if (ak_dtype_is_float(o->dtype))
            ak_store(o->dtype, o->data, o->offset + i, ak_num(&v, 0) + (double)i * ak_num(&v, 1));
        else
            ak_store_i64(o->dtype, o->data, o->offset + i, (int64_t)((uint64_t)ak_int(&v, 0) + (uint64_t)i * (uint64_t)ak_int(&v, 1)));
    }
    return 0;
}
RUN(arange1, run_range(c, 1))
RUN(arange2, run_range(c, 2))
RUN(arange3, run_range(c, 3))

static int infer_linspace(struct ak_opcall *c, struct ak_err *err) {
    int64_t n = ak_int(c, 2);
    return n < 0 ? ak_bad(err, "the number of steps is negative") : ak_out(c, ak_dtype_or(c, 3, AK_F32), 1, &n);
}
static int run_linspace(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *o = &c->out[0];
    int64_t n = o->shape[0];
    double a = ak_num(c, 0), b = ak_num(c, 1), step = n > 1 ? (b - a) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++) /* exact at both ends, as PyTorch counts from the nearer one */
        ak_store(o->dtype, o->data, o->offset + i, i < n / 2 || n == 1 ? a + step * (double)i : b - step * (double)(n - 1 - i));
    return 0;
}

static int infer_eye(struct ak_opcall *c, struct ak_err *err) {
    int64_t shape[2] = {ak_int(c, 0), c->op->args[1].name[0] == 'm' ? ak_int(c, 1) : ak_int(c, 0)};
    if (shape[0] < 0 || shape[1] < 0) return ak_bad(err, "a size is negative");
    return ak_out(c, ak_dtype_or(c, c->op->args[1].name[0] == 'm' ? 2 : 1, AK_F32), 2, shape);
}
static int run_eye(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *o = &c->out[0];
    if (!ak_numel(o)) return 0;
    ak_fill(o, 0, 0);
    struct ak_tensor d = {.dtype = o->dtype, .ndim = 1, .data = o->data, .offset = o->offset, .stride = {o->stride[0] + o->stride[1]}};
    d.shape[0] = o->shape[0] < o->shape[1] ? o->shape[0] : o->shape[1];
    ak_fill(&d, 1, 1);
    return 0;
}

/* ---- triangles: elements with col - row > diagonal (tril) or < diagonal (triu) become 0 ---- */

static int infer_tri(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    return t && t->ndim >= 2 ? ak_infer_same(c, err) : ak_bad(err, "rank 2 or more is wanted");
}
static int tri(struct ak_opcall *c, bool lower) {
    const struct ak_tensor *o = &c->out[0];
    int64_t rows = o->shape[o->ndim - 2], cols = o->shape[o->ndim - 1], k = ak_int(c, 1), size = (int64_t)ak_dtype_size(o->dtype);
    ak_copy(o, ak_arg(c, 0));
    if (cols == 0 || rows == 0) return 0;
    k = k < -rows ? -rows : k > cols ? cols : k;
    for (int64_t r = 0, n = ak_numel(o) / cols; r < n; r++) {
        int64_t first = r % rows + k + (lower ? 1 : 0); /* lower clears from here on, upper up to here */
        first = first < 0 ? 0 : first > cols ? cols : first;
        struct ak_tensor part = {.dtype = o->dtype, .ndim = 1, .stride = {1}, .data = (char *)o->data + (o->offset + r * cols) * size};
        part.offset = lower ? first : 0;
        part.shape[0] = lower ? cols - first : first;
        if (part.shape[0]) ak_fill(&part, 0, 0);
    }
    return 0;
}
RUN(tril, tri(c, true))
RUN(triu, tri(c, false))

static int infer_one_hot(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t shape[AK_MAX_DIMS], n = ak_int(c, 1);
    if (!t || t->dtype != AK_I64 || t->ndim == AK_MAX_DIMS) return ak_bad(err, "i64 indices are wanted");
    if (n <= 0) return ak_bad(err, "num_classes depends on the data; give it");
    for (int i = 0; i < t->ndim; i++)
        shape[i] = t->shape[i];
    shape[t->ndim] = n;
    return ak_out(c, AK_I64, t->ndim + 1, shape);
}
static int run_one_hot(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    int64_t classes = ak_int(c, 1);
    ak_fill(o, 0, 0);
    int64_t *v = ak_wholes(t), n = ak_numel(t), i = 0;
    for (; i < n && v[i] >= 0 && v[i] < classes; i++)
        ak_store_i64(AK_I64, o->data, o->offset + i * classes + v[i], 1);
    free(v);
    return i < n ? ak_bad(err, "a class is out of range") : 0;
}

#define KW "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
#define KWM "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"
#define ROW(s, i, r) {.schema = "aten." s, .infer = i, .run = r}

static const struct ak_op rows[] = {
    ROW("zeros.default(SymInt[] size, " KW, infer_sized, run_zeros),
    ROW("ones.default(SymInt[] size, " KW, infer_sized, run_ones),
    ROW("empty.memory_format(SymInt[] size, " KWM, infer_sized, run_zeros), /* whatever it holds is written later */
    ROW("full.default(SymInt[] size, Scalar fill_value, " KW, infer_full, run_full),
    ROW("new_zeros.default(Tensor self, SymInt[] size, " KW, infer_new, run_zeros),
    ROW("new_ones.default(Tensor self, SymInt[] size, " KW, infer_new, run_ones),
    ROW("new_empty.default(Tensor self, SymInt[] size, " KW, infer_new, run_zeros),
    ROW("new_full.default(Tensor self, SymInt[] size, Scalar fill_value, " KW, infer_new_full, run_new_full),
    ROW("zeros_like.default(Tensor self, " KWM, infer_like, run_zeros),
    ROW("ones_like.default(Tensor self, " KWM, infer_like, run_ones),
    ROW("empty_like.default(Tensor self, " KWM, infer_like, run_zeros),
    ROW("full_like.default(Tensor self, Scalar fill_value, " KWM, infer_full_like, run_full),
    ROW("fill.Scalar(Tensor self, Scalar value) -> Tensor", ak_infer_same, run_full),
    ROW("fill.Tensor(Tensor self, Tensor value) -> Tensor", infer_fill, run_full),
    ROW("zero.default(Tensor self) -> Tensor", ak_infer_same, run_zeros),
    ROW("scalar_tensor.default(Scalar s, " KW, infer_scalar, run_scalar),
    ROW("arange.default(Scalar end, " KW, infer_arange1, run_arange1),
    ROW("arange.start(Scalar start, Scalar end, " KW, infer_arange2, run_arange2),
    ROW("arange.start_step(Scalar start, Scalar end, Scalar step=1, " KW, infer_arange3, run_arange3),
    ROW("linspace.default(Scalar start, Scalar end, int steps, " KW, infer_linspace, run_linspace),
    ROW("eye.default(SymInt n, " KW, infer_eye, run_eye),
    ROW("eye.m(SymInt n, SymInt m, " KW, infer_eye, run_eye),
    ROW("tril.default(Tensor self, int diagonal=0) -> Tensor", infer_tri, run_tril),
    ROW("triu.default(Tensor self, int diagonal=0) -> Tensor", infer_tri, run_triu),
    ROW("one_hot.default(Tensor self, int num_classes=-1) -> Tensor", infer_one_hot, run_one_hot),
};
AK_ROWS(ak_ops_create, rows);
