/* Arithmetic of two tensors, or of a tensor and a number. */
#include <math.h>

#include "walk.h"

#define REAL(name, expr)                                                                                               \
    static void real_##name(const double *const *x, double *y, int64_t n, const double *p) {                           \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = x[0][i], b = x[1][i];                                                                           \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }
#define WHOLE(name, expr)                                                                                              \
    static void whole_##name(const int64_t *const *x, int64_t *y, int64_t n, const double *p) {                        \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t a = x[0][i], b = x[1][i];                                                                          \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }

/* Integers wrap as two's complement does. */
static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
static int64_t floored(int64_t a, int64_t b) {
    int64_t q = quotient(a, b);
    return b && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static int64_t modulo(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b + ((a % b != 0 && (a < 0) != (b < 0)) ? b : 0); }

/* Python's, as ATen's: the result has b's sign. */
static double real_modulo(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static double real_floored(double a, double b) {
    if (b == 0) return a / b;
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1;
    if (q == 0) return copysign(0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}
static int64_t int_pow(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t r = 1;
    for (; b; b >>= 1, a = times(a, a))
        if (b & 1) r = times(r, a);
    return r;
}
static double greater(double a, double b) { return isnan(a) || a > b ? a : b; }
static double lesser(double a, double b) { return isnan(a) || a < b ? a : b; }
static double add_exp(double a, double b) {
    double m = greater(a, b), d = fabs(a - b);
    return isinf(m) && a == b ? m : m + log1p(exp(-d));
}

REAL(add, a + p[0] * b)
WHOLE(add, plus(a, times(ak_whole(p[0]), b)))
REAL(plain_add, a + b)
REAL(mul, a *b)
WHOLE(mul, times(a, b))
REAL(div, a / b)
REAL(div_floor, real_floored(a, b))
WHOLE(div_floor, floored(a, b))
REAL(div_trunc, trunc(p[0] != 0 ? a / b : (double)(float)(a / b))) /* what is cut is the rounded quotient: 7 / 0.1f is 70 */
WHOLE(div_trunc, quotient(a, b))
REAL(remainder, real_modulo(a, b))
WHOLE(remainder, modulo(a, b))
REAL(fmod, fmod(a, b))
WHOLE(fmod, b == 0 || b == -1 ? 0 : a % b)
REAL(pow, pow(a, b))
WHOLE(pow, int_pow(a, b))
REAL(sqrt, ((void)b, sqrt(a)))
REAL(maximum, greater(a, b))
WHOLE(maximum, a > b ? a : b)
REAL(minimum, lesser(a, b))
WHOLE(minimum, a < b ? a : b)
REAL(fmax, fmax(a, b))
REAL(fmin, fmin(a, b))
REAL(atan2, atan2(a, b))
REAL(logaddexp, add_exp(a, b))
REAL(hypot, hypot(a, b))
REAL(xlogy, isnan(b) ? b : a == 0 ? 0 : a *log(b))
REAL(prelu, a > 0 ? a : a * b)
REAL(none, a + b)
WHOLE(and, a &b)
WHOLE(or, a | b)
WHOLE(xor, a ^ b)
WHOLE(shl, b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b))
WHOLE(shr, a >> (b < 0 || b > 63 ? 63 : b))

static int run_as(struct ak_opcall *c, enum ak_dtype common, ak_real_fn *real, ak_whole_fn *whole, const double *par) {
    return ak_pointwise(c, &(struct ak_pointwise){.n = 2, .arg = {0, 1}, .common = common, .real = real, .whole = whole, .par = par});
}

static int infer_promoted(struct ak_opcall *c, struct ak_err *err) { return ak_out_broadcast(c, 0, 2, (int)ak_result_type(c, 0, 2), err); }

static int infer_floating(struct ak_opcall *c, struct ak_err *err) {
    return ak_out_broadcast(c, 0, 2, (int)ak_floating(ak_result_type(c, 0, 2)), err);
}

static int infer_integral(struct ak_opcall *c, struct ak_err *err) {
    if (ak_dtype_is_float(ak_result_type(c, 0, 2))) return ak_bad(err, "integers or booleans are wanted");
    return infer_promoted(c, err);
}

#define RUN(name, dtype, real, whole)                                                                                  \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        return run_as(c, dtype, real, whole, NULL);                                                                    \
    }
#define COMMON ak_result_type(c, 0, 2)
RUN(mul, COMMON, real_mul, whole_mul)
RUN(div, ak_floating(COMMON), real_div, NULL)
RUN(floor_divide, COMMON, real_div_floor, whole_div_floor)
RUN(remainder, COMMON, real_remainder, whole_remainder)
RUN(fmod, COMMON, real_fmod, whole_fmod)
RUN(maximum, COMMON, real_maximum, whole_maximum)
RUN(minimum, COMMON, real_minimum, whole_minimum)
RUN(fmax, COMMON, real_fmax, whole_maximum)
RUN(fmin, COMMON, real_fmin, whole_minimum)
RUN(atan2, ak_floating(COMMON), real_atan2, NULL)
RUN(logaddexp, ak_floating(COMMON), real_logaddexp, NULL)
RUN(hypot, ak_floating(COMMON), real_hypot, NULL)
RUN(xlogy, ak_floating(COMMON), real_xlogy, NULL)
RUN(and, COMMON, real_none, whole_and)
RUN(or, COMMON, real_none, whole_or)
RUN(xor, COMMON, real_none, whole_xor)
RUN(shl, COMMON, real_none, whole_shl)
RUN(shr, COMMON, real_none, whole_shr)

/* ATen takes the power 0.5 for a root, which shows at -inf. */
static int run_pow(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    bool root = c->in[1].kind == AK_VAL_FLOAT && c->in[1].f == 0.5;
    return run_as(c, COMMON, root ? real_sqrt : real_pow, whole_pow, NULL);
}

/* self + alpha * other */
static int add_scaled(struct ak_opcall *c, double sign) {
    double par[1] = {sign * (c->nin > 2 ? ak_num(c, 2) : 1)};
    if (COMMON == AK_BOOL) par[0] = par[0] != 0;
    return run_as(c, COMMON, par[0] == 1 ? real_plain_add : real_add, whole_add, par);
}
static int run_add(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return add_scaled(c, 1);
}
static int run_sub(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return add_scaled(c, -1);
}
/* other - alpha * self */
static int run_rsub(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    double par[1] = {-ak_num(c, 2)};
    return ak_pointwise(c, &(struct ak_pointwise){.n = 2, .arg = {1, 0}, .common = COMMON, .real = real_add, .whole = whole_add, .par = par});
}

static int check_alpha(struct ak_opcall *c, struct ak_err *err) {
    if (c->nin > 2 && c->in[2].kind == AK_VAL_FLOAT && !ak_dtype_is_float(COMMON)) return ak_bad(err, "alpha is real, the tensors are not");
    return 0;
}
static int infer_add(struct ak_opcall *c, struct ak_err *err) { return check_alpha(c, err) ? -1 : infer_promoted(c, err); }
static int infer_sub(struct ak_opcall *c, struct ak_err *err) {
    if (ak_result_type(c, 0, 1) == AK_BOOL || ak_result_type(c, 1, 1) == AK_BOOL) return ak_bad(err, "booleans cannot be subtracted");
    return infer_add(c, err);
}

/* div with rounding_mode None, "trunc" or "floor" */
static int infer_div_mode(struct ak_opcall *c, struct ak_err *err) {
    if (ak_none(c, 2)) return infer_floating(c, err);
    char m = c->in[2].s[0];
    if (m != 't' && m != 'f') return ak_bad(err, "rounding_mode is trunc or floor, not '%s'", c->in[2].s);
    return infer_promoted(c, err);
}
static int run_div_mode(struct ak_opcall *c, struct ak_err *err) {
    if (ak_none(c, 2)) return run_div(c, err);
    if (c->in[2].s[0] == 'f') return run_floor_divide(c, err);
    double par[1] = {COMMON == AK_F64};
    return run_as(c, COMMON, real_div_trunc, whole_div_trunc, par);
}

static int infer_pow(struct ak_opcall *c, struct ak_err *err) {
    if (!ak_dtype_is_float(COMMON) && c->in[1].kind == AK_VAL_INT && c->in[1].i < 0)
        return ak_bad(err, "integers to a negative power");
    return infer_promoted(c, err);
}

/* A weight of one element, or one a channel (dim 1). */
static int infer_prelu(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *w = ak_arg(c, 1);
    if (!t || !w) return ak_bad(err, "tensors are wanted");
    if (!ak_dtype_is_float(t->dtype) || w->dtype != t->dtype) return ak_bad(err, "two tensors of one floating dtype are wanted");
    int64_t channels = t->ndim >= 2 ? t->shape[1] : 1;
    if (w->ndim > 1 || (ak_numel(w) != 1 && ak_numel(w) != channels)) return ak_bad(err, "the weight does not fit the channels");
    return ak_infer_same(c, err);
}
static int run_prelu(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *t = ak_arg(c, 0), *w = ak_arg(c, 1);
    struct ak_tensor wide = *w;
    int at = t->ndim >= 2 ? 1 : 0;
    wide.ndim = ak_numel(w) == 1 ? 0 : t->ndim;
    for (int i = 0; i < wide.ndim; i++) {
        wide.shape[i] = i == at ? w->shape[0] : 1;
        wide.stride[i] = i == at ? w->stride[0] : 0;
    }
    struct ak_opcall d = *c;
    d.in[1].t = &wide;
    return run_as(&d, t->dtype, real_prelu, NULL, NULL);
}

#define P(s, inf, r) {.schema = s, .infer = inf, .run = r, .flags = AK_OP_POINTWISE}
#define TWO(name, inf, r) P("aten." name "(Tensor self, Tensor other) -> Tensor", inf, r)
#define ONE(name, inf, r) P("aten." name "(Tensor self, Scalar other) -> Tensor", inf, r)

static const struct ak_op rows[] = {
    P("aten.add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", infer_add, run_add),
    P("aten.add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", infer_add, run_add),
    P("aten.sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", infer_sub, run_sub),
    P("aten.sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", infer_sub, run_sub),
    P("aten.subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", infer_sub, run_sub),
    P("aten.rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", infer_sub, run_rsub),
    P("aten.rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", infer_sub, run_rsub),
    TWO("mul.Tensor", infer_promoted, run_mul),
    ONE("mul.Scalar", infer_promoted, run_mul),
    TWO("multiply.Tensor", infer_promoted, run_mul),
    TWO("div.Tensor", infer_floating, run_div),
    ONE("div.Scalar", infer_floating, run_div),
    TWO("divide.Tensor", infer_floating, run_div),
    TWO("true_divide.Tensor", infer_floating, run_div),
    P("aten.div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", infer_div_mode, run_div_mode),
    P("aten.div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", infer_div_mode, run_div_mode),
    TWO("floor_divide.default", infer_promoted, run_floor_divide),
    ONE("floor_divide.Scalar", infer_promoted, run_floor_divide),
    TWO("remainder.Tensor", infer_promoted, run_remainder),
    ONE("remainder.Scalar", infer_promoted, run_remainder),
    TWO("fmod.Tensor", infer_promoted, run_fmod),
    ONE("fmod.Scalar", infer_promoted, run_fmod),
    P("aten.pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", infer_pow, run_pow),
    P("aten.pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", infer_pow, run_pow),
    P("aten.pow.Scalar(Scalar self, Tensor exponent) -> Tensor", infer_pow, run_pow),
    TWO("maximum.default", infer_promoted, run_maximum),
    TWO("max.other", infer_promoted, run_maximum),
    TWO("minimum.default", infer_promoted, run_minimum),
    TWO("min.other", infer_promoted, run_minimum),
    TWO("fmax.default", infer_promoted, run_fmax),
    TWO("fmin.default", infer_promoted, run_fmin),
    TWO("atan2.default", infer_floating, run_atan2),
    TWO("logaddexp.default", infer_floating, run_logaddexp),
    TWO("hypot.default", infer_floating, run_hypot),
    TWO("xlogy.Tensor", infer_floating, run_xlogy),
    P("aten.prelu.default(Tensor self, Tensor weight) -> Tensor", infer_prelu, run_prelu),
    TWO("bitwise_and.Tensor", infer_integral, run_and),
    ONE("bitwise_and.Scalar", infer_integral, run_and),
    TWO("__and__.Tensor", infer_integral, run_and),
    ONE("__and__.Scalar", infer_integral, run_and),
    TWO("bitwise_or.Tensor", infer_integral, run_or),
    ONE("bitwise_or.Scalar", infer_integral, run_or),
    TWO("__or__.Tensor", infer_integral, run_or),
    ONE("__or__.Scalar", infer_integral, run_or),
    TWO("bitwise_xor.Tensor", infer_integral, run_xor),
    ONE("bitwise_xor.Scalar", infer_integral, run_xor),
    TWO("__xor__.Tensor", infer_integral, run_xor),
    TWO("bitwise_left_shift.Tensor", infer_integral, run_shl),
    TWO("bitwise_right_shift.Tensor", infer_integral, run_shr),
    ONE("__lshift__.Scalar", infer_integral, run_shl),
    ONE("__rshift__.Scalar", infer_integral, run_shr),
};
AK_ROWS(ak_ops_binary, rows);
