/* Conversions of dtype, which alias when nothing is to be done, and copies. Device and layout are
 * where the exporter happened to run: ignored. */
#include "walk.h"

static int converted(struct ak_opcall *c, enum ak_dtype dtype, bool copy, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t) return ak_bad(err, "a tensor is wanted");
    if (dtype == t->dtype && !copy) return ak_out_view(c, 0, t);
    return ak_out(c, dtype, t->ndim, t->shape);
}

static enum ak_dtype own(const struct ak_opcall *c) { return ak_result_type(c, 0, 1); }

static int infer_to_dtype(struct ak_opcall *c, struct ak_err *err) { return converted(c, ak_dtype_or(c, 1, own(c)), ak_flag(c, 3), err); }
static int infer_to_layout(struct ak_opcall *c, struct ak_err *err) { return converted(c, ak_dtype_or(c, 1, own(c)), ak_flag(c, 6), err); }
static int infer_to_device(struct ak_opcall *c, struct ak_err *err) { return converted(c, ak_dtype_or(c, 2, own(c)), ak_flag(c, 4), err); }
static int infer_to_copy(struct ak_opcall *c, struct ak_err *err) { return converted(c, ak_dtype_or(c, 1, own(c)), true, err); }
static int infer_clone(struct ak_opcall *c, struct ak_err *err) { return converted(c, own(c), true, err); }
static int infer_to_other(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *o = ak_arg(c, 1);
    return o ? converted(c, o->dtype, c->nin > 3 && ak_flag(c, 3), err) : ak_bad(err, "a tensor is wanted");
}

static int run_convert(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    ak_copy(&c->out[0], ak_arg(c, 0));
    return 0;
}

/* copy(self, src): src with self's shape and dtype */
static int infer_copy(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *s = ak_arg(c, 1);
    if (!t) return ak_bad(err, "a tensor is wanted");
    int ndim = t->ndim;
    int64_t shape[AK_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        shape[i] = t->shape[i];
    if (s && ak_broadcast(&ndim, shape, s, err)) return -1;
    struct ak_tensor wide = ak_tensor_new(t->dtype, ndim, shape);
    if (!ak_same_shape(&wide, t)) return ak_bad(err, "the source does not broadcast to it");
    return ak_infer_same(c, err);
}
static int run_copy(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    if (ak_arg(c, 1))
        ak_copy(&c->out[0], ak_arg(c, 1));
    else
        ak_fill(&c->out[0], ak_num(c, 1), ak_int(c, 1));
    return 0;
}

#define CAST(s, f) {.schema = s, .infer = f, .run = run_convert, .flags = AK_OP_VIEW | AK_OP_POINTWISE, .flops = no_flops}
static double no_flops(const struct ak_opcall *c) {
    (void)c;
    return 0;
}

static const struct ak_op rows[] = {
    CAST("aten.to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
         "Tensor(a)",
         infer_to_dtype),
    CAST("aten.to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
         "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
         infer_to_layout),
    CAST("aten.to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
         "memory_format=None) -> Tensor(a)",
         infer_to_device),
    CAST("aten.to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
         "Tensor(a)",
         infer_to_other),
    CAST("aten.type_as.default(Tensor self, Tensor other) -> Tensor", infer_to_other),
    CAST("aten._to_copy.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
         "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
         infer_to_copy),
    CAST("aten.clone.default(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", infer_clone),
    {.schema = "aten.copy.default(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
     .infer = infer_copy,
     .run = run_copy,
     .flags = AK_OP_POINTWISE,
     .flops = no_flops},
};
AK_ROWS(ak_ops_cast, rows);
