/* Ops that yield integers, for graphs with symbolic sizes. */
#include "ops.h"

static int result(struct ak_opcall *c, int64_t v) {
    c->is_int = true;
    c->ival = v;
    return 0;
}

static int size(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t) return ak_bad(err, "a tensor is wanted");
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    return t->ndim ? result(c, t->shape[d]) : ak_bad(err, "rank 0 has no sizes");
}

static int numel(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    return t ? result(c, ak_numel(t)) : ak_bad(err, "a tensor is wanted");
}

static int stride(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t || ak_dim(ak_int(c, 1), t->ndim, &d, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    return t->ndim ? result(c, t->stride[d]) : ak_bad(err, "rank 0 has no strides");
}

static int64_t floored(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t modulo(int64_t a, int64_t b) { return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); }

#define INT(name, check, overflow, expr)                                                                               \
    static int name(struct ak_opcall *c, struct ak_err *err) {                                                         \
        int64_t a = ak_int(c, 0), b = c->nin > 1 ? ak_int(c, 1) : 0, r = 0;                                            \
        (void)b;                                                                                                       \
        (void)r;                                                                                                       \
        if (check) return ak_bad(err, "division by zero");                                                             \
        if (overflow) return ak_bad(err, "the result does not fit 64 bits");                                           \
        return result(c, expr);                                                                                        \
    }

INT(add, false, __builtin_add_overflow(a, b, &r), r)
INT(sub, false, __builtin_sub_overflow(a, b, &r), r)
INT(mul, false, __builtin_mul_overflow(a, b, &r), r)
INT(floordiv, b == 0, a == INT64_MIN && b == -1, floored(a, b))
INT(mod, b == 0, false, b == -1 ? 0 : modulo(a, b))
INT(truediv, b == 0 || (b != -1 && a % b != 0), a == INT64_MIN && b == -1, a / b)
INT(neg, false, __builtin_sub_overflow(0, a, &r), r)
INT(eq, false, false, a == b)
INT(ne, false, false, a != b)
INT(lt, false, false, a < b)
INT(le, false, false, a <= b)
INT(gt, false, false, a > b)
INT(ge, false, false, a >= b)
INT(and_, false, false, a &b)
INT(or_, false, false, a | b)
INT(min, false, false, a < b ? a : b)
INT(max, false, false, a > b ? a : b)

#define TWO(name, fn) {.schema = name "(int a, int b) -> int", .infer = fn}

static const struct ak_op rows[] = {
    {.schema = "aten.sym_size.int(Tensor self, int dim) -> int", .infer = size},
    {.schema = "aten.size.int(Tensor self, int dim) -> int", .infer = size},
    {.schema = "aten.sym_numel.default(Tensor self) -> int", .infer = numel},
    {.schema = "aten.sym_stride.int(Tensor self, int dim) -> int", .infer = stride},
    TWO("_operator.add", add),
    TWO("_operator.sub", sub),
    TWO("_operator.mul", mul),
    TWO("_operator.floordiv", floordiv),
    TWO("_operator.mod", mod),
    TWO("_operator.truediv", truediv),
    TWO("_operator.eq", eq),
    TWO("_operator.ne", ne),
    TWO("_operator.lt", lt),
    TWO("_operator.le", le),
    TWO("_operator.gt", gt),
    TWO("_operator.ge", ge),
    TWO("_operator.and_", and_),
    TWO("_operator.or_", or_),
    TWO("math.min", min),
    TWO("math.max", max),
    TWO("torch.sym_min", min),
    TWO("torch.sym_max", max),
    {.schema = "_operator.neg(int a) -> int", .infer = neg},
    {.schema = "aten._assert_tensor_metadata.default(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
               "Device? device=None, Layout? layout=None) -> ()",
     .infer = ak_infer_nothing,
     .flags = AK_OP_EFFECT},
    {.schema = "aten._assert_scalar.default(Scalar self, str assert_msg) -> ()", .infer = ak_infer_nothing, .flags = AK_OP_EFFECT},
    {.schema = "aten._assert_async.msg(Tensor self, str assert_msg) -> ()", .infer = ak_infer_nothing, .flags = AK_OP_EFFECT},
    {.schema = "aten.sym_constrain_range.default(Scalar size, *, int? min=None, int? max=None) -> ()",
     .infer = ak_infer_nothing,
     .flags = AK_OP_EFFECT},
    {.schema = "aten.sym_constrain_range_for_size.default(Scalar size, *, int? min=None, int? max=None) -> ()",
     .infer = ak_infer_nothing,
     .flags = AK_OP_EFFECT},
};
AK_ROWS(ak_ops_sym, rows);
