/* Element by element: a function of one to three rows of doubles (or integers), over any strides. */
#include <math.h>

#include "args.h"
#include "families.h"

/* ---- shapes ---- */

static int infer_broadcast(struct ak_opcall *c, size_t n, enum ak_dtype dtype, struct ak_err *err) {
    const struct ak_tensor *t[AK_MAX_MAP] = {0};
    int64_t shape[AK_MAX_DIMS];
    for (size_t i = 0; i < n; i++)
        t[i] = ak_t(c, i);
    int ndim = ak_broadcast(t, n, shape, err);
    return ndim < 0 ? -1 : ak_out(c, dtype, ndim, shape);
}

static int infer_same(struct ak_opcall *c, struct ak_err *err) { return infer_broadcast(c, 1, ak_t(c, 0)->dtype, err); }
static int infer_float(struct ak_opcall *c, struct ak_err *err) {
    enum ak_dtype d = ak_t(c, 0)->dtype;
    return infer_broadcast(c, 1, ak_dtype_is_float(d) ? d : AK_F32, err);
}
static int infer_bool1(struct ak_opcall *c, struct ak_err *err) { return infer_broadcast(c, 1, AK_BOOL, err); }
/* Numbers among the arguments may raise the category: clamp(int, 0.5) is float. */
static int infer_with_numbers(struct ak_opcall *c, struct ak_err *err) { return infer_broadcast(c, 1, ak_result_type(c, c->nin), err); }
static int infer_arith(struct ak_opcall *c, struct ak_err *err) { return infer_broadcast(c, 2, ak_result_type(c, 2), err); }
static int infer_true_div(struct ak_opcall *c, struct ak_err *err) {
    enum ak_dtype d = ak_result_type(c, 2);
    return infer_broadcast(c, 2, ak_dtype_is_float(d) ? d : AK_F32, err);
}
static int infer_compare(struct ak_opcall *c, struct ak_err *err) { return infer_broadcast(c, 2, AK_BOOL, err); }

/* ---- running ---- */

union ak_room {
    double f;
    int64_t i;
};

/* Argument i as a tensor: itself, or the number it is, kept in *room. */
static const struct ak_tensor *operand(const struct ak_opcall *c, size_t i, struct ak_tensor *t, union ak_room *room) {
    const struct ak_val *v = &c->in[i];
    if (v->kind == AK_VAL_TENSOR) return v->t;
    bool real = v->kind == AK_VAL_FLOAT;
    if (real)
        room->f = v->f;
    else
        room->i = v->i;
    *t = ak_tensor_new(real ? AK_F64 : AK_I64, 0, NULL);
    t->data = room;
    return t;
}

static int run_map(struct ak_opcall *c, size_t n, ak_row_fn *fn, ak_row_fn_i64 *fn_i64, const double *param) {
    struct ak_tensor number[AK_MAX_MAP], wide[AK_MAX_MAP];
    union ak_room room[AK_MAX_MAP];
    const struct ak_tensor *in[AK_MAX_MAP];
    for (size_t i = 0; i < n; i++) {
        wide[i] = ak_expand(operand(c, i, &number[i], &room[i]), c->out[0].ndim, c->out[0].shape);
        in[i] = &wide[i];
    }
    ak_map(&c->out[0], in, n, fn, fn_i64, param);
    return 0;
}

/* A row function over x (and y, z), and the op's run. */
#define ROW(name, expr)                                                                                                \
    static void row_##name(const double *const *in, double *out, int64_t n, const double *p) {                         \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double x = in[0][i];                                                                                       \
            out[i] = (expr);                                                                                           \
        }                                                                                                              \
    }
#define ROW2(name, expr)                                                                                               \
    static void row_##name(const double *const *in, double *out, int64_t n, const double *p) {                         \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double x = in[0][i], y = in[1][i];                                                                         \
            out[i] = (expr);                                                                                           \
        }                                                                                                              \
    }
#define INT_ROW2(name, expr)                                                                                           \
    static void introw_##name(const int64_t *const *in, int64_t *out, int64_t n, const double *p) {                    \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t x = in[0][i], y = in[1][i];                                                                        \
            out[i] = (expr);                                                                                           \
        }                                                                                                              \
    }
#define INT_ROW(name, expr)                                                                                            \
    static void introw_##name(const int64_t *const *in, int64_t *out, int64_t n, const double *p) {                    \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t x = in[0][i];                                                                                      \
            out[i] = (expr);                                                                                           \
        }                                                                                                              \
    }
#define RUN(name, n, ints)                                                                                             \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        return run_map(c, n, row_##name, ints, NULL);                                                                  \
    }
#define UNARY(name, expr) ROW(name, expr) RUN(name, 1, NULL)
#define UNARY_INT(name, expr, int_expr) ROW(name, expr) INT_ROW(name, int_expr) RUN(name, 1, introw_##name)
#define BINARY(name, expr) ROW2(name, expr) RUN(name, 2, NULL)
#define BINARY_INT(name, expr) ROW2(name, expr) INT_ROW2(name, expr) RUN(name, 2, introw_##name)

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double clip(double x, double lo, double hi) { return x != x ? x : x < lo ? lo : x > hi ? hi : x; }
static uint64_t u64(int64_t x) { return (uint64_t)x; } /* wraps as torch's integers do */

UNARY_INT(neg, -x, (int64_t)(0 - u64(x)))
UNARY_INT(abs, fabs(x), x < 0 ? (int64_t)(0 - u64(x)) : x)
UNARY_INT(relu, x != x ? x : x > 0 ? x : 0, x > 0 ? x : 0)
UNARY_INT(sign, x != x ? 0 : (x > 0) - (x < 0), (x > 0) - (x < 0))
UNARY_INT(logical_not, !(x != 0), !x)
UNARY(exp, exp(x))
UNARY(expm1, expm1(x))
UNARY(log, log(x))
UNARY(log2, log2(x))
UNARY(log1p, log1p(x))
UNARY(sqrt, sqrt(x))
UNARY(rsqrt, 1 / sqrt(x))
UNARY(reciprocal, 1 / x)
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tanh, tanh(x))
UNARY(erf, erf(x))
UNARY(floor, floor(x))
UNARY(ceil, ceil(x))
UNARY(round, nearbyint(x))
UNARY(sigmoid, sigmoid(x))
UNARY(silu, x *sigmoid(x))
UNARY(mish, x *tanh(softplus(x)))
UNARY(hardswish, x *clip(x + 3, 0, 6) / 6)
UNARY(hardsigmoid, clip(x + 3, 0, 6) / 6)
UNARY(relu6, clip(x, 0, 6))
UNARY(selu, 1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848170429916717 * expm1(x)))
UNARY(isnan, x != x)

static int run_bitwise_not(struct ak_opcall *c, struct ak_err *err);
INT_ROW(bitwise_not, ~x)
static int run_bitwise_not(struct ak_opcall *c, struct ak_err *err) {
    if (c->out[0].dtype == AK_BOOL) return run_logical_not(c, err);
    return run_map(c, 1, row_neg, introw_bitwise_not, NULL);
}

/* aten::gelu: x Phi(x); "tanh": the approximation of Hendrycks and Gimpel 2016. */
ROW(gelu_erf, 0.5 * x * erfc(-x * M_SQRT1_2))
ROW(gelu_tanh, 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
static int run_gelu(struct ak_opcall *c, struct ak_err *err) {
    const char *how = c->in[1].s;
    bool is_tanh = how[0] == 't';
    if (!is_tanh && how[0] != 'n') return ak_fail(err, AK_EXIT_INPUT, "approximate is none or tanh, not '%s'", how);
    return run_map(c, 1, is_tanh ? row_gelu_tanh : row_gelu_erf, NULL, NULL);
}

ROW(leaky_relu, x != x || x > 0 ? x : x * p[0])
static int run_leaky_relu(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_map(c, 1, row_leaky_relu, NULL, &(double){ak_num(c, 1, 0.01)});
}
ROW(elu, (x > 0 ? x : p[0] * expm1(x * p[2])) * p[1])
static int run_elu(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_map(c, 1, row_elu, NULL, (double[]){ak_num(c, 1, 1), ak_num(c, 2, 1), ak_num(c, 3, 1)});
}
ROW(softplus, x *p[0] > p[1] ? x : softplus(x * p[0]) / p[0])
static int run_softplus(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_map(c, 1, row_softplus, NULL, (double[]){ak_num(c, 1, 1), ak_num(c, 2, 20)});
}
ROW(clamp, clip(x, p[0], p[1]))
static int run_clamp(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_map(c, 1, row_clamp, NULL, (double[]){ak_num(c, 1, -INFINITY), ak_num(c, 2, INFINITY)});
}
static int run_clamp_max(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_map(c, 1, row_clamp, NULL, (double[]){-INFINITY, ak_num(c, 1, INFINITY)});
}

ROW2(add, x + p[0] * y)
INT_ROW2(add, (int64_t)(u64(x) + u64((int64_t)p[0]) * u64(y)))
ROW2(sub, x - p[0] * y)
INT_ROW2(sub, (int64_t)(u64(x) - u64((int64_t)p[0]) * u64(y)))
ROW2(rsub, y - p[0] * x)
INT_ROW2(rsub, (int64_t)(u64(y) - u64((int64_t)p[0]) * u64(x)))
#define WITH_ALPHA(name)                                                                                               \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        return run_map(c, 2, row_##name, introw_##name, &(double){ak_num(c, 2, 1)});                                   \
    }
WITH_ALPHA(add)
WITH_ALPHA(sub)
WITH_ALPHA(rsub)

static int64_t int_pow(int64_t x, int64_t y) {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t r = 1, b = u64(x);
    for (; y; y >>= 1, b *= b)
        if (y & 1) r *= b;
    return (int64_t)r;
}
static double floor_div(double x, double y) { return floor(x / y); }
static double remainder_of(double x, double y) {
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static int64_t int_floor_div(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? (int64_t)(0 - u64(x)) : x / y - (x % y != 0 && (x < 0) != (y < 0)); }

ROW2(mul, x *y)
INT_ROW2(mul, (int64_t)(u64(x) * u64(y)))
RUN(mul, 2, introw_mul)
BINARY(div, x / y)
ROW2(pow, pow(x, y))
INT_ROW2(pow, int_pow(x, y))
RUN(pow, 2, introw_pow)
BINARY_INT(maximum, x != x ? x : y != y ? y : x > y ? x : y)
BINARY_INT(minimum, x != x ? x : y != y ? y : x < y ? x : y)
BINARY_INT(eq, x == y)
BINARY_INT(ne, x != y)
BINARY_INT(lt, x < y)
BINARY_INT(le, x <= y)
BINARY_INT(gt, x > y)
BINARY_INT(ge, x >= y)
BINARY_INT(logical_and, (x != 0) & (y != 0))
BINARY_INT(logical_or, (x != 0) | (y != 0))
BINARY_INT(logical_xor, (x != 0) ^ (y != 0))
ROW2(floor_div, floor_div(x, y))
INT_ROW2(floor_div, int_floor_div(x, y))
RUN(floor_div, 2, introw_floor_div)
ROW2(remainder, remainder_of(x, y))
INT_ROW2(remainder, y == 0 ? 0 : (int64_t)(u64(x) - u64(int_floor_div(x, y)) * u64(y)))
RUN(remainder, 2, introw_remainder)
ROW2(trunc_div, trunc(x / y))

#define BITWISE(name, op)                                                                                              \
    INT_ROW2(name, x op y)                                                                                             \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        if (ak_dtype_is_float(c->out[0].dtype)) return ak_fail(err, AK_EXIT_INPUT, "not for floating-point tensors");   \
        return run_map(c, 2, row_mul, introw_##name, NULL);                                                            \
    }
BITWISE(bitwise_and, &)
BITWISE(bitwise_or, |)
BITWISE(bitwise_xor, ^)

static int infer_div_mode(struct ak_opcall *c, struct ak_err *err) {
    return c->in[2].kind == AK_VAL_STR ? infer_arith(c, err) : infer_true_div(c, err);
}
static int run_div_mode(struct ak_opcall *c, struct ak_err *err) {
    if (c->in[2].kind != AK_VAL_STR) return run_div(c, err);
    return c->in[2].s[0] == 'f' ? run_floor_div(c, err) : run_map(c, 2, row_trunc_div, NULL, NULL);
}

/* ---- three operands ---- */

static int infer_where(struct ak_opcall *c, struct ak_err *err) {
    struct ak_opcall pair = {.nin = 2, .in = {c->in[1], c->in[2]}};
    return infer_broadcast(c, 3, ak_result_type(&pair, 2), err);
}
static void row_where(const double *const *in, double *out, int64_t n, const double *p) {
    (void)p;
    for (int64_t i = 0; i < n; i++)
        out[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
}
static void introw_where(const int64_t *const *in, int64_t *out, int64_t n, const double *p) {
    (void)p;
    for (int64_t i = 0; i < n; i++)
        out[i] = in[0][i] ? in[1][i] : in[2][i];
}
RUN(where, 3, introw_where)

/* masked_fill(self, mask, value) is where(mask, value, self) of self's dtype. */
static int infer_masked_fill(struct ak_opcall *c, struct ak_err *err) { return infer_broadcast(c, 2, ak_t(c, 0)->dtype, err); }
static int run_masked_fill(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    struct ak_opcall w = {.op = c->op, .nin = 3, .in = {c->in[1], c->in[2], c->in[0]}, .nout = 1};
    w.out[0] = c->out[0];
    return run_map(&w, 3, row_where, introw_where, NULL);
}

#define P AK_OP_POINTWISE
#define UN(name, infer) {"aten." #name ".default(Tensor self) -> Tensor", infer, run_##name, P, NULL, NULL}
#define UN_(name, infer) {"aten." #name "_.default(Tensor self) -> Tensor", infer, NULL, P | AK_OP_INPLACE, "aten." #name ".default", NULL}
#define BIN(op, over, other, infer, run) {"aten." op "." over "(Tensor self, " other " other) -> Tensor", infer, run, P, NULL, NULL}
#define BIN_(op, over, other, infer)                                                                                   \
    {"aten." op "_." over "(Tensor self, " other " other) -> Tensor", infer, NULL, P | AK_OP_INPLACE, "aten." op "." over, NULL}
#define CMP(name) BIN(#name, "Tensor", "Tensor", infer_compare, run_##name), BIN(#name, "Scalar", "Scalar", infer_compare, run_##name)
#define BOTH(op, fn) BIN(op, "Tensor", "Tensor", infer_arith, fn), BIN(op, "Scalar", "Scalar", infer_arith, fn)
#define ALPHA(op, over, other, run) {"aten." op "." over "(Tensor self, " other " other, *, Scalar alpha=1) -> Tensor", infer_arith, run, P, NULL, NULL}
#define ALPHA_(op, over, other)                                                                                        \
    {"aten." op "_." over "(Tensor self, " other " other, *, Scalar alpha=1) -> Tensor", infer_arith, NULL, P | AK_OP_INPLACE, "aten." op "." over, NULL}

static const struct ak_op_row table[] = {
    UN(neg, infer_same), UN(abs, infer_same), UN(relu, infer_same), UN(sign, infer_same), UN(floor, infer_same), UN(ceil, infer_same),
    UN(round, infer_same), UN(logical_not, infer_bool1), UN(bitwise_not, infer_same), UN(isnan, infer_bool1),
    UN(exp, infer_float), UN(expm1, infer_float), UN(log, infer_float), UN(log2, infer_float), UN(log1p, infer_float), UN(sqrt, infer_float),
    UN(rsqrt, infer_float), UN(reciprocal, infer_float), UN(sin, infer_float), UN(cos, infer_float), UN(tanh, infer_float), UN(erf, infer_float),
    UN(sigmoid, infer_float), UN(silu, infer_float), UN(mish, infer_float), UN(hardswish, infer_float), UN(hardsigmoid, infer_float),
    UN(relu6, infer_same), UN(selu, infer_float),
    UN_(neg, infer_same), UN_(abs, infer_same), UN_(relu, infer_same), UN_(exp, infer_same), UN_(sqrt, infer_same), UN_(rsqrt, infer_same),
    UN_(tanh, infer_same), UN_(sigmoid, infer_same), UN_(silu, infer_same), UN_(mish, infer_same), UN_(hardswish, infer_same),
    UN_(hardsigmoid, infer_same), UN_(relu6, infer_same), UN_(selu, infer_same),
    {"aten.gelu.default(Tensor self, *, str approximate=\"none\") -> Tensor", infer_float, run_gelu, P, NULL, NULL},
    {"aten.gelu_.default(Tensor self, *, str approximate=\"none\") -> Tensor", infer_float, NULL, P | AK_OP_INPLACE, "aten.gelu.default", NULL},
    {"aten.leaky_relu.default(Tensor self, Scalar negative_slope=0.01) -> Tensor", infer_float, run_leaky_relu, P, NULL, NULL},
    {"aten.leaky_relu_.default(Tensor self, Scalar negative_slope=0.01) -> Tensor", infer_float, NULL, P | AK_OP_INPLACE, "aten.leaky_relu.default", NULL},
    {"aten.elu.default(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", infer_float, run_elu, P, NULL, NULL},
    {"aten.elu_.default(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", infer_float, NULL, P | AK_OP_INPLACE, "aten.elu.default", NULL},
    {"aten.softplus.default(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", infer_float, run_softplus, P, NULL, NULL},
    {"aten.hardtanh.default(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", infer_same, run_clamp, P, NULL, NULL},
    {"aten.hardtanh_.default(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", infer_same, NULL, P | AK_OP_INPLACE, "aten.hardtanh.default", NULL},
    {"aten.clamp.default(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", infer_with_numbers, run_clamp, P, NULL, NULL},
    {"aten.clamp_.default(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", infer_with_numbers, NULL, P | AK_OP_INPLACE, "aten.clamp.default", NULL},
    {"aten.clamp_min.default(Tensor self, Scalar min) -> Tensor", infer_with_numbers, run_clamp, P, NULL, NULL},
    {"aten.clamp_max.default(Tensor self, Scalar max) -> Tensor", infer_with_numbers, run_clamp_max, P, NULL, NULL},
    ALPHA("add", "Tensor", "Tensor", run_add), ALPHA("sub", "Tensor", "Tensor", run_sub), ALPHA("rsub", "Scalar", "Scalar", run_rsub),
    ALPHA("rsub", "Tensor", "Tensor", run_rsub), ALPHA("add", "Scalar", "Scalar", run_add), ALPHA("sub", "Scalar", "Scalar", run_sub),
    ALPHA_("add", "Tensor", "Tensor"), ALPHA_("sub", "Tensor", "Tensor"), ALPHA_("add", "Scalar", "Scalar"), ALPHA_("sub", "Scalar", "Scalar"),
    BOTH("mul", run_mul), BOTH("multiply", run_mul), BOTH("remainder", run_remainder), BIN("floor_divide", "default", "Tensor", infer_arith, run_floor_div),
    BIN("floor_divide", "Scalar", "Scalar", infer_arith, run_floor_div),
    BIN("div", "Tensor", "Tensor", infer_true_div, run_div), BIN("div", "Scalar", "Scalar", infer_true_div, run_div),
    {"aten.div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", infer_div_mode, run_div_mode, P, NULL, NULL},
    BIN_("mul", "Tensor", "Tensor", infer_arith), BIN_("mul", "Scalar", "Scalar", infer_arith), BIN_("div", "Tensor", "Tensor", infer_true_div),
    BIN_("div", "Scalar", "Scalar", infer_true_div),
    {"aten.pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", infer_arith, run_pow, P, NULL, NULL},
    {"aten.pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", infer_arith, run_pow, P, NULL, NULL},
    {"aten.pow.Scalar(Scalar self, Tensor exponent) -> Tensor", infer_arith, run_pow, P, NULL, NULL},
    BIN("maximum", "default", "Tensor", infer_arith, run_maximum), BIN("minimum", "default", "Tensor", infer_arith, run_minimum),
    BIN("max", "other", "Tensor", infer_arith, run_maximum), BIN("min", "other", "Tensor", infer_arith, run_minimum),
    CMP(eq), CMP(ne), CMP(lt), CMP(le), CMP(gt), CMP(ge),
    BIN("logical_and", "default", "Tensor", infer_compare, run_logical_and), BIN("logical_or", "default", "Tensor", infer_compare, run_logical_or),
    BIN("logical_xor", "default", "Tensor", infer_compare, run_logical_xor),
    BOTH("bitwise_and", run_bitwise_and), BOTH("bitwise_or", run_bitwise_or), BOTH("bitwise_xor", run_bitwise_xor), BOTH("__and__", run_bitwise_and),
    BOTH("__or__", run_bitwise_or),
    {"aten.where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", infer_where, run_where, P, NULL, NULL},
    {"aten.where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", infer_where, run_where, P, NULL, NULL},
    {"aten.where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", infer_where, run_where, P, NULL, NULL},
    {"aten.masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", infer_masked_fill, run_masked_fill, P, NULL, NULL},
    {"aten.masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", infer_masked_fill, run_masked_fill, P, NULL, NULL},
    {"aten.masked_fill_.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", infer_masked_fill, NULL, P | AK_OP_INPLACE, "aten.masked_fill.Scalar", NULL},
};
AK_FAMILY(ak_family_pointwise, table);
