/* Tensors made of nothing but numbers and other tensors' shapes. */
#include <math.h>

#include "args.h"
#include "families.h"

static enum ak_dtype dtype_of(const struct ak_opcall *c, size_t i, enum ak_dtype otherwise) { return (enum ak_dtype)ak_int(c, i, otherwise); }

static void fill(const struct ak_tensor *out, const struct ak_val *v) {
    union {
        double f;
        int64_t i;
    } room;
    bool real = v->kind == AK_VAL_FLOAT;
    if (real)
        room.f = v->f;
    else
        room.i = v->i;
    struct ak_tensor t = ak_tensor_new(real ? AK_F64 : AK_I64, 0, NULL);
    t.data = &room;
    struct ak_tensor wide = ak_expand(&t, out->ndim, out->shape);
    ak_copy(out, &wide);
}
static int run_zeros(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    fill(&c->out[0], &(struct ak_val){.kind = AK_VAL_INT, .i = 0});
    return 0;
}
static int run_ones(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    fill(&c->out[0], &(struct ak_val){.kind = AK_VAL_INT, .i = 1});
    return 0;
}
static int run_full(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    fill(&c->out[0], &c->in[1]);
    return 0;
}
static int run_full_new(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    fill(&c->out[0], &c->in[2]);
    return 0;
}
static int run_scalar(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    fill(&c->out[0], &c->in[0]);
    return 0;
}

static int sized(struct ak_opcall *c, size_t i, enum ak_dtype dtype, struct ak_err *err) {
    if (c->in[i].ints.n > AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "more than %d dims", AK_MAX_DIMS);
    for (size_t d = 0; d < c->in[i].ints.n; d++)
        if (c->in[i].ints.v[d] < 0) return ak_fail(err, AK_EXIT_INPUT, "dim %zu is negative", d);
    return ak_out(c, dtype, (int)c->in[i].ints.n, c->in[i].ints.v);
}
static enum ak_dtype of_number(const struct ak_val *v) { return v->kind == AK_VAL_FLOAT ? AK_F32 : v->kind == AK_VAL_BOOL ? AK_BOOL : AK_I64; }
static int infer_size(struct ak_opcall *c, struct ak_err *err) { return sized(c, 0, dtype_of(c, 1, AK_F32), err); }
static int infer_full(struct ak_opcall *c, struct ak_err *err) { return sized(c, 0, dtype_of(c, 2, of_number(&c->in[1])), err); }
static int infer_new(struct ak_opcall *c, struct ak_err *err) { return sized(c, 1, dtype_of(c, 2, ak_t(c, 0)->dtype), err); }
static int infer_new_full(struct ak_opcall *c, struct ak_err *err) { return sized(c, 1, dtype_of(c, 3, ak_t(c, 0)->dtype), err); }
static int infer_like(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out_like(c, dtype_of(c, 1, ak_t(c, 0)->dtype), ak_t(c, 0));
}
static int infer_full_like(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out_like(c, dtype_of(c, 2, ak_t(c, 0)->dtype), ak_t(c, 0));
}
static int infer_scalar(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return ak_out(c, dtype_of(c, 1, of_number(&c->in[0])), 0, NULL);
}

/* arange: ceil((end - start) / step) numbers; integers unless a bound is a float. */
struct range {
    struct ak_val start, end, step;
    enum ak_dtype dtype;
};
static struct range range_of(const struct ak_opcall *c) {
    struct range r = {.start = {.kind = AK_VAL_INT, .i = 0}, .step = {.kind = AK_VAL_INT, .i = 1}};
    size_t i = 0;
    bool has_start = c->op->args[0].name[0] == 's';
    if (has_start) r.start = c->in[i++];
    r.end = c->in[i++];
    if (c->op->args[i].name[0] == 's') r.step = c->in[i++];
    bool real = r.start.kind == AK_VAL_FLOAT || r.end.kind == AK_VAL_FLOAT || r.step.kind == AK_VAL_FLOAT;
    r.dtype = dtype_of(c, i, real ? AK_F32 : AK_I64);
    return r;
}
static double number(const struct ak_val *v) { return v->kind == AK_VAL_FLOAT ? v->f : (double)v->i; }
static int infer_arange(struct ak_opcall *c, struct ak_err *err) {
    struct range r = range_of(c);
    double n = ceil((number(&r.end) - number(&r.start)) / number(&r.step));
    if (!(n >= 0 && n < 0x1p40)) return ak_fail(err, AK_EXIT_INPUT, "no range from %g to %g by %g", number(&r.start), number(&r.end), number(&r.step));
    return ak_out(c, r.dtype, 1, (int64_t[]){(int64_t)n});
}
static int run_arange(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    struct range r = range_of(c);
    for (int64_t i = 0; i < c->out[0].shape[0]; i++) {
        if (ak_dtype_is_float(r.dtype) || r.step.kind == AK_VAL_FLOAT || r.start.kind == AK_VAL_FLOAT)
            ak_set(&c->out[0], i, number(&r.start) + (double)i * number(&r.step));
        else
            ak_store_i64(r.dtype, c->out[0].data, ak_index(&c->out[0], i), r.start.i + i * r.step.i);
    }
    return 0;
}

#define TAIL "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define LIKE "(Tensor self, *, " TAIL ", MemoryFormat? memory_format=None) -> Tensor"
static const struct ak_op_row table[] = {
    {"aten.zeros.default(int[] size, *, " TAIL ") -> Tensor", infer_size, run_zeros, 0, NULL, NULL},
    {"aten.ones.default(int[] size, *, " TAIL ") -> Tensor", infer_size, run_ones, 0, NULL, NULL},
    {"aten.empty.memory_format(int[] size, *, " TAIL ", MemoryFormat? memory_format=None) -> Tensor", infer_size, run_zeros, 0, NULL, NULL},
    {"aten.full.default(int[] size, Scalar fill_value, *, " TAIL ") -> Tensor", infer_full, run_full, 0, NULL, NULL},
    {"aten.zeros_like.default" LIKE, infer_like, run_zeros, 0, NULL, NULL},
    {"aten.ones_like.default" LIKE, infer_like, run_ones, 0, NULL, NULL},
    {"aten.empty_like.default" LIKE, infer_like, run_zeros, 0, NULL, NULL},
    {"aten.full_like.default(Tensor self, Scalar fill_value, *, " TAIL ", MemoryFormat? memory_format=None) -> Tensor", infer_full_like, run_full, 0, NULL, NULL},
    {"aten.new_zeros.default(Tensor self, int[] size, *, " TAIL ") -> Tensor", infer_new, run_zeros, 0, NULL, NULL},
    {"aten.new_ones.default(Tensor self, int[] size, *, " TAIL ") -> Tensor", infer_new, run_ones, 0, NULL, NULL},
    {"aten.new_full.default(Tensor self, int[] size, Scalar fill_value, *, " TAIL ") -> Tensor", infer_new_full, run_full_new, 0, NULL, NULL},
    {"aten.scalar_tensor.default(Scalar s, *, " TAIL ") -> Tensor", infer_scalar, run_scalar, 0, NULL, NULL},
    {"aten.arange.default(Scalar end, *, " TAIL ") -> Tensor", infer_arange, run_arange, 0, NULL, NULL},
    {"aten.arange.start(Scalar start, Scalar end, *, " TAIL ") -> Tensor", infer_arange, run_arange, 0, NULL, NULL},
    {"aten.arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " TAIL ") -> Tensor", infer_arange, run_arange, 0, NULL, NULL},
};
AK_FAMILY(ak_family_create, table);
