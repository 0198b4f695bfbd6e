/* Pointwise ops of one tensor. */
#include <math.h>

#include "walk.h"

/* What a and the numbers p[0..2] give; `whole` the same for integers. */
#define REAL(name, expr)                                                                                               \
    static void real_##name(const double *const *x, double *y, int64_t n, const double *p) {                           \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = x[0][i];                                                                                        \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }
#define WHOLE(name, expr)                                                                                              \
    static void whole_##name(const int64_t *const *x, int64_t *y, int64_t n, const double *p) {                        \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t a = x[0][i];                                                                                       \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }

/* Numbers after the tensor, rounded to what the op computes in for float inputs narrower than f64. */
static int run_unary(struct ak_opcall *c, ak_real_fn *real, ak_whole_fn *whole, enum ak_dtype common) {
    double par[6] = {0};
    for (size_t i = 1; i < c->nin && i < 7; i++)
        if (c->in[i].kind == AK_VAL_FLOAT || c->in[i].kind == AK_VAL_INT || c->in[i].kind == AK_VAL_BOOL) {
            par[i - 1] = ak_num(c, i);
            if (common != AK_F64) par[i - 1] = (double)(float)par[i - 1];
        }
    return ak_pointwise(c, &(struct ak_pointwise){.n = 1, .common = common, .real = real, .whole = whole, .par = par});
}

/* Integers are computed as floats. */
#define FLOATING(name, expr)                                                                                           \
    REAL(name, expr)                                                                                                   \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        return run_unary(c, real_##name, NULL, ak_floating(ak_result_type(c, 0, 1)));                                  \
    }
/* Integers stay integers. */
#define KEEPING(name, expr, whole_expr)                                                                                \
    REAL(name, expr)                                                                                                   \
    WHOLE(name, whole_expr)                                                                                            \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        return run_unary(c, real_##name, whole_##name, ak_result_type(c, 0, 1));                                       \
    }

static int64_t negated(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
static double sigmoid(double a) { return a >= 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)); }
static double softplus(double a) { return fmax(a, 0) + log1p(exp(-fabs(a))); }
static double within(double a, double lo, double hi) { return a < lo ? lo : a > hi ? hi : a; }
static double gelu(double a) { return 0.5 * a * erfc(-a * M_SQRT1_2); }
static double gelu_tanh(double a) {
    return a * sigmoid(2 * 0.79788456080286535588 * (a + 0.044715 * a * a * a)); /* sqrt(2/pi); 1 + tanh u = 2 sigmoid 2u */
}

FLOATING(exp, exp(a))
FLOATING(exp2, exp2(a))
FLOATING(expm1, expm1(a))
FLOATING(log, log(a))
FLOATING(log2, log2(a))
FLOATING(log10, log10(a))
FLOATING(log1p, log1p(a))
FLOATING(sqrt, sqrt(a))
FLOATING(rsqrt, 1 / sqrt(a))
FLOATING(sin, sin(a))
FLOATING(cos, cos(a))
FLOATING(tan, tan(a))
FLOATING(asin, asin(a))
FLOATING(acos, acos(a))
FLOATING(atan, atan(a))
FLOATING(sinh, sinh(a))
FLOATING(cosh, cosh(a))
FLOATING(tanh, tanh(a))
FLOATING(asinh, asinh(a))
FLOATING(acosh, acosh(a))
FLOATING(atanh, atanh(a))
FLOATING(erf, erf(a))
FLOATING(erfc, erfc(a))
FLOATING(sigmoid, sigmoid(a))
FLOATING(reciprocal, 1 / a)
FLOATING(gelu, gelu(a))
FLOATING(gelu_tanh, gelu_tanh(a))
FLOATING(silu, a * sigmoid(a))
FLOATING(mish, a * tanh(softplus(a)))
FLOATING(log_sigmoid, -softplus(-a))
FLOATING(softplus, a * p[0] > p[1] ? a : softplus(a * p[0]) / p[0])
FLOATING(elu, (a > 0 ? a * p[1] : expm1(a * p[2]) * p[0] * p[1]))
FLOATING(selu, 1.0507009873554804934193349852946 * (a > 0 ? a : 1.6732632423543772848170429916717 * expm1(a)))
FLOATING(celu, a > 0 ? a : p[0] * expm1(a / p[0]))
FLOATING(leaky_relu, a > 0 ? a : a * p[0])
FLOATING(hardswish, a * within(a + 3, 0, 6) / 6)
FLOATING(hardsigmoid, within(a + 3, 0, 6) / 6)
FLOATING(hardshrink, a >= -p[0] && a <= p[0] ? 0 : a)
FLOATING(softshrink, a > p[0] ? a - p[0] : a < -p[0] ? a + p[0] : isnan(a) ? a : 0)
KEEPING(neg, -a, negated(a))
KEEPING(abs, fabs(a), a < 0 ? negated(a) : a)
KEEPING(sign, (a > 0) - (a < 0), (a > 0) - (a < 0))
REAL(square, a *a)
WHOLE(square, (int64_t)((uint64_t)a * (uint64_t)a))
KEEPING(relu, a < 0 ? 0 : a, a < 0 ? 0 : a)
KEEPING(relu6, within(a, 0, 6), a < 0 ? 0 : a > 6 ? 6 : a)
KEEPING(hardtanh, within(a, p[0], p[1]), (double)a < p[0] ? ak_whole(p[0]) : (double)a > p[1] ? ak_whole(p[1]) : a)
KEEPING(threshold, a <= p[0] ? p[1] : a, (double)a <= p[0] ? ak_whole(p[1]) : a)
KEEPING(floor, floor(a), a)
KEEPING(ceil, ceil(a), a)
KEEPING(round, nearbyint(a), a)
KEEPING(trunc, trunc(a), a)
KEEPING(frac, a - trunc(a), a - a)
KEEPING(logical_not, a == 0, a == 0)
KEEPING(isnan, isnan(a) != 0, ((void)a, 0))
KEEPING(isinf, isinf(a) != 0, ((void)a, 0))
KEEPING(isfinite, isfinite(a) != 0, ((void)a, 1))
REAL(none, a)
WHOLE(bitwise_not, ~a)
WHOLE(not_bool, !a)

static int run_bitwise_not(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    enum ak_dtype d = c->out[0].dtype;
    return run_unary(c, real_none, d == AK_BOOL ? whole_not_bool : whole_bitwise_not, d);
}

/* pow(self, 2): the 2 makes booleans i64 */
static enum ak_dtype squared(const struct ak_opcall *c) {
    enum ak_dtype d = ak_result_type(c, 0, 1);
    return d == AK_BOOL ? AK_I64 : d;
}
static int infer_square(struct ak_opcall *c, struct ak_err *err) { return ak_out_broadcast(c, 0, 1, (int)squared(c), err); }
static int run_square(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run_unary(c, real_square, whole_square, squared(c));
}

static int run_gelu_kind(struct ak_opcall *c, struct ak_err *err) {
    return c->in[1].s[0] == 't' ? run_gelu_tanh(c, err) : run_gelu(c, err);
}

static int infer_gelu(struct ak_opcall *c, struct ak_err *err) {
    const char *s = c->in[1].s;
    if (s[0] != 't' && s[0] != 'n') return ak_bad(err, "approximate is none or tanh, not '%s'", s);
    return ak_infer_float(c, err);
}

static int infer_bool(struct ak_opcall *c, struct ak_err *err) { return ak_out_broadcast(c, 0, 1, AK_BOOL, err); }

static int infer_bitwise(struct ak_opcall *c, struct ak_err *err) {
    if (ak_dtype_is_float(ak_result_type(c, 0, 1))) return ak_bad(err, "integers or booleans are wanted");
    return ak_infer_same(c, err);
}

static int infer_neg(struct ak_opcall *c, struct ak_err *err) {
    if (ak_result_type(c, 0, 1) == AK_BOOL) return ak_bad(err, "booleans cannot be negated");
    return ak_infer_same(c, err);
}

/* dropout(train=True) draws random numbers, so it has no truth. */
static int infer_dropout(struct ak_opcall *c, struct ak_err *err) {
    if (ak_flag(c, 2) && ak_num(c, 1) != 0) return ak_bad(err, "dropout that trains is random; export the model in eval mode");
    const struct ak_tensor *t = ak_arg(c, 0);
    return t ? ak_out_view(c, 0, t) : ak_bad(err, "a tensor is wanted");
}

#define F(s, name) {.schema = s, .infer = ak_infer_float, .run = run_##name, .flags = AK_OP_POINTWISE}
#define K(s, name) {.schema = s, .infer = ak_infer_same, .run = run_##name, .flags = AK_OP_POINTWISE}
#define U(name) F("aten." #name ".default(Tensor self) -> Tensor", name)
#define V(name) K("aten." #name ".default(Tensor self) -> Tensor", name)
#define B(name) {.schema = "aten." #name ".default(Tensor self) -> Tensor", .infer = infer_bool, .run = run_##name, .flags = AK_OP_POINTWISE}

static const struct ak_op rows[] = {
    U(exp), U(exp2), U(expm1), U(log), U(log2), U(log10), U(log1p), U(sqrt), U(rsqrt), U(sin), U(cos), U(tan), U(asin), U(acos), U(atan),
    U(sinh), U(cosh), U(tanh), U(asinh), U(acosh), U(atanh), U(erf), U(erfc), U(sigmoid), U(reciprocal), U(silu), U(mish), U(log_sigmoid),
    U(selu), U(hardswish), U(hardsigmoid), V(abs), V(sign), V(relu), V(relu6), V(floor), V(ceil), V(round), V(trunc), V(frac),
    B(logical_not), B(isnan), B(isinf), B(isfinite),
    F("aten.special_expit.default(Tensor self) -> Tensor", sigmoid),
    F("aten.arctan.default(Tensor self) -> Tensor", atan),
    K("aten.absolute.default(Tensor self) -> Tensor", abs),
    {.schema = "aten.square.default(Tensor self) -> Tensor", .infer = infer_square, .run = run_square, .flags = AK_OP_POINTWISE},
    {.schema = "aten.neg.default(Tensor self) -> Tensor", .infer = infer_neg, .run = run_neg, .flags = AK_OP_POINTWISE},
    {.schema = "aten.negative.default(Tensor self) -> Tensor", .infer = infer_neg, .run = run_neg, .flags = AK_OP_POINTWISE},
    {.schema = "aten.bitwise_not.default(Tensor self) -> Tensor", .infer = infer_bitwise, .run = run_bitwise_not, .flags = AK_OP_POINTWISE},
    {.schema = "aten.gelu.default(Tensor self, *, str approximate=\"none\") -> Tensor", .infer = infer_gelu, .run = run_gelu_kind, .flags = AK_OP_POINTWISE},
    F("aten.elu.default(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", elu),
    F("aten.celu.default(Tensor self, Scalar alpha=1.0) -> Tensor", celu),
    F("aten.leaky_relu.default(Tensor self, Scalar negative_slope=0.01) -> Tensor", leaky_relu),
    F("aten.softplus.default(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", softplus),
    F("aten.hardshrink.default(Tensor self, Scalar lambd=0.5) -> Tensor", hardshrink),
    F("aten.softshrink.default(Tensor self, Scalar lambd=0.5) -> Tensor", softshrink),
    K("aten.hardtanh.default(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", hardtanh),
    K("aten.threshold.default(Tensor self, Scalar threshold, Scalar value) -> Tensor", threshold),
    {.schema = "aten.dropout.default(Tensor input, float p, bool train) -> Tensor", .infer = infer_dropout, .flags = AK_OP_VIEW},
    {.schema = "aten.feature_dropout.default(Tensor input, float p, bool train) -> Tensor", .infer = infer_dropout, .flags = AK_OP_VIEW},
};
AK_ROWS(ak_ops_unary, rows);
