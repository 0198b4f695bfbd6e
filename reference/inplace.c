/* Ops that write their first argument: each names the op that gives the same as a new tensor. */
#include "ops.h"

#define IN(base, overload, args)                                                                                       \
    {                                                                                                                  \
        .schema = "aten." base "_." overload "(Tensor(a!) self" args ") -> Tensor(a!)", .flags = AK_OP_INPLACE,        \
        .functional = "aten." base "." overload                                                                        \
    }
#define UNARY(base) IN(base, "default", "")
#define TENSOR(base) IN(base, "Tensor", ", Tensor other")
#define SCALAR(base) IN(base, "Scalar", ", Scalar other")

static const struct ak_op rows[] = {
    UNARY("relu"), UNARY("relu6"), UNARY("silu"), UNARY("sigmoid"), UNARY("tanh"), UNARY("exp"), UNARY("log"), UNARY("sqrt"), UNARY("rsqrt"),
    UNARY("neg"), UNARY("abs"), UNARY("square"), UNARY("sin"), UNARY("cos"), UNARY("erf"), UNARY("floor"), UNARY("ceil"), UNARY("round"),
    UNARY("reciprocal"), UNARY("mish"), UNARY("selu"), UNARY("hardswish"), UNARY("hardsigmoid"), UNARY("detach"), UNARY("zero"),
    UNARY("squeeze"), UNARY("t"), UNARY("logical_not"), UNARY("bitwise_not"),
    IN("gelu", "default", ", *, str approximate=\"none\""),
    IN("elu", "default", ", Scalar alpha=1, Scalar scale=1, Scalar input_scale=1"),
    IN("celu", "default", ", Scalar alpha=1.0"),
    IN("leaky_relu", "default", ", Scalar negative_slope=0.01"),
    IN("hardtanh", "default", ", Scalar min_val=-1, Scalar max_val=1"),
    IN("threshold", "default", ", Scalar threshold, Scalar value"),
    IN("dropout", "default", ", float p, bool train"),
    IN("feature_dropout", "default", ", float p, bool train"),
    IN("add", "Tensor", ", Tensor other, *, Scalar alpha=1"),
    IN("add", "Scalar", ", Scalar other, Scalar alpha=1"),
    IN("sub", "Tensor", ", Tensor other, *, Scalar alpha=1"),
    IN("sub", "Scalar", ", Scalar other, Scalar alpha=1"),
    TENSOR("mul"), SCALAR("mul"), TENSOR("div"), SCALAR("div"), TENSOR("remainder"), SCALAR("remainder"), TENSOR("fmod"), SCALAR("fmod"),
    TENSOR("bitwise_and"), TENSOR("bitwise_or"), TENSOR("bitwise_xor"),
    TENSOR("eq"), TENSOR("ne"), TENSOR("lt"), TENSOR("le"), TENSOR("gt"), TENSOR("ge"),
    SCALAR("eq"), SCALAR("ne"), SCALAR("lt"), SCALAR("le"), SCALAR("gt"), SCALAR("ge"),
    IN("div", "Tensor_mode", ", Tensor other, *, str? rounding_mode"),
    {.schema = "aten.floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .flags = AK_OP_INPLACE,
     .functional = "aten.floor_divide.default"},
    IN("floor_divide", "Scalar", ", Scalar other"),
    {.schema = "aten.pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
     .flags = AK_OP_INPLACE,
     .functional = "aten.pow.Tensor_Scalar"},
    {.schema = "aten.pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
     .flags = AK_OP_INPLACE,
     .functional = "aten.pow.Tensor_Tensor"},
    IN("logical_and", "default", ", Tensor other"),
    IN("logical_or", "default", ", Tensor other"),
    IN("clamp", "default", ", Scalar? min=None, Scalar? max=None"),
    IN("clamp_min", "default", ", Scalar min"),
    IN("clamp_max", "default", ", Scalar max"),
    IN("masked_fill", "Scalar", ", Tensor mask, Scalar value"),
    IN("masked_fill", "Tensor", ", Tensor mask, Tensor value"),
    IN("fill", "Scalar", ", Scalar value"),
    IN("fill", "Tensor", ", Tensor value"),
    IN("copy", "default", ", Tensor src, bool non_blocking=False"),
    IN("unsqueeze", "default", ", int dim"),
    IN("squeeze", "dim", ", int dim"),
    {.schema = "aten.transpose_.default(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)",
     .flags = AK_OP_INPLACE,
     .functional = "aten.transpose.int"},
    IN("tril", "default", ", int diagonal=0"),
    IN("triu", "default", ", int diagonal=0"),
    IN("cumsum", "default", ", int dim, *, ScalarType? dtype=None"),
    IN("addmm", "default", ", Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1"),
    IN("baddbmm", "default", ", Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1"),
    IN("addcmul", "default", ", Tensor tensor1, Tensor tensor2, *, Scalar value=1"),
    IN("addcdiv", "default", ", Tensor tensor1, Tensor tensor2, *, Scalar value=1"),
    IN("lerp", "Scalar", ", Tensor end, Scalar weight"),
};
AK_ROWS(ak_ops_inplace, rows);
