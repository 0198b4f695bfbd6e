/* Choices between elements: where, masked_fill, clamp, and pointwise ops of three tensors. */
#include <math.h>

#include "walk.h"

#define LOOP(type, name, expr)                                                                                         \
    static void name(const type *const *x, type *y, int64_t n, const double *p) {                                      \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type a = x[0][i], b = x[1][i], d = x[2][i];                                                                \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }
#define BOTH(name, expr) LOOP(double, real_##name, expr) LOOP(int64_t, whole_##name, expr)

BOTH(where, (a != 0 ? b : d))
BOTH(masked, (b != 0 ? d : a))
LOOP(double, real_addcmul, a + p[0] * b * d)
LOOP(int64_t, whole_addcmul, (int64_t)((uint64_t)a + (uint64_t)ak_whole(p[0]) * (uint64_t)b * (uint64_t)d))
LOOP(double, real_addcdiv, a + p[0] * b / d)
LOOP(double, real_lerp, (fabs(d) < 0.5 ? a + d * (b - a) : b - (b - a) * (1 - d)))

static int run3(struct ak_opcall *c, enum ak_dtype common, ak_real_fn *real, ak_whole_fn *whole, const double *par) {
    return ak_pointwise(c, &(struct ak_pointwise){.n = 3, .arg = {0, 1, 2}, .common = common, .real = real, .whole = whole, .par = par});
}

/* ---- where(condition, self, other) ---- */

static int infer_where(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *m = ak_arg(c, 0);
    if (!m || (m->dtype != AK_BOOL && m->dtype != AK_U8)) return ak_bad(err, "the condition is not boolean");
    return ak_out_broadcast(c, 0, 3, (int)ak_result_type(c, 1, 2), err);
}
static int run_where(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run3(c, c->out[0].dtype, real_where, whole_where, NULL);
}

/* ---- masked_fill(self, mask, value) ---- */

static int infer_masked_fill(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *m = ak_arg(c, 1), *v = ak_arg(c, 2);
    if (!t || !m || m->dtype != AK_BOOL || (v && v->ndim)) return ak_bad(err, "a tensor, a boolean mask and one value are wanted");
    return ak_out_broadcast(c, 0, 2, (int)t->dtype, err);
}
static int run_masked_fill(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run3(c, c->out[0].dtype, real_masked, whole_masked, NULL);
}

/* ---- clamp(self, min, max), either may be absent; NaN stays; max wins over min ---- */

#define CLAMP(type, name)                                                                                              \
    static void name(const type *const *x, type *y, int64_t n, const double *p) {                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type v = x[0][i];                                                                                          \
            if (p[0] != 0) v = v < x[1][i] || x[1][i] != x[1][i] ? x[1][i] : v;                                        \
            if (p[1] != 0) v = v > x[2][i] || x[2][i] != x[2][i] ? x[2][i] : v;                                        \
            y[i] = v;                                                                                                  \
        }                                                                                                              \
    }
CLAMP(double, real_clamp)
CLAMP(int64_t, whole_clamp)

static int infer_clamp(struct ak_opcall *c, struct ak_err *err) {
    if (ak_none(c, 1) && (c->nin < 3 || ak_none(c, 2))) return ak_bad(err, "neither min nor max is given");
    return ak_out_broadcast(c, 0, c->nin, (int)ak_result_type(c, 0, c->nin), err);
}
/* Integer bounds do not wrap: u8 is never below -3. */
static enum ak_dtype bounds_dtype(const struct ak_opcall *c) { return ak_dtype_is_float(c->out[0].dtype) ? c->out[0].dtype : AK_I64; }

static int run_clamp(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    double par[2] = {!ak_none(c, 1), c->nin > 2 && !ak_none(c, 2)};
    return run3(c, bounds_dtype(c), real_clamp, whole_clamp, par);
}
/* clamp_max(self, max) as clamp(self, None, max) */
static int run_clamp_max(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    double par[2] = {0, 1};
    return ak_pointwise(c, &(struct ak_pointwise){.n = 3, .arg = {0, 0, 1}, .common = bounds_dtype(c), .real = real_clamp, .whole = whole_clamp, .par = par});
}
static int run_clamp_min(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    double par[2] = {1, 0};
    return ak_pointwise(c, &(struct ak_pointwise){.n = 3, .arg = {0, 1, 1}, .common = bounds_dtype(c), .real = real_clamp, .whole = whole_clamp, .par = par});
}

/* ---- self + value * a * b and kin ---- */

static int infer3(struct ak_opcall *c, struct ak_err *err) { return ak_out_broadcast(c, 0, 3, (int)ak_result_type(c, 0, 3), err); }
static int infer3_real(struct ak_opcall *c, struct ak_err *err) {
    if (!ak_dtype_is_float(ak_result_type(c, 0, 3))) return ak_bad(err, "real numbers are wanted");
    return infer3(c, err);
}
static int run_addcmul(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    double par[1] = {ak_num(c, 3)};
    return run3(c, c->out[0].dtype, real_addcmul, whole_addcmul, par);
}
static int run_addcdiv(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    double par[1] = {ak_num(c, 3)};
    return run3(c, c->out[0].dtype, real_addcdiv, NULL, par);
}
static int run_lerp(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return run3(c, c->out[0].dtype, real_lerp, NULL, NULL);
}

#define ROW(s, i, r) {.schema = "aten." s, .infer = i, .run = r, .flags = AK_OP_POINTWISE}

static const struct ak_op rows[] = {
    ROW("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", infer_where, run_where),
    ROW("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", infer_where, run_where),
    ROW("where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", infer_where, run_where),
    ROW("where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", infer_where, run_where),
    ROW("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", infer_masked_fill, run_masked_fill),
    ROW("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", infer_masked_fill, run_masked_fill),
    ROW("clamp.default(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", infer_clamp, run_clamp),
    ROW("clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", infer_clamp, run_clamp),
    ROW("clip.default(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", infer_clamp, run_clamp),
    ROW("clamp_min.default(Tensor self, Scalar min) -> Tensor", infer_clamp, run_clamp_min),
    ROW("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", infer_clamp, run_clamp_min),
    ROW("clamp_max.default(Tensor self, Scalar max) -> Tensor", infer_clamp, run_clamp_max),
    ROW("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", infer_clamp, run_clamp_max),
    ROW("addcmul.default(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", infer3, run_addcmul),
    ROW("addcdiv.default(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", infer3_real, run_addcdiv),
    ROW("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", infer3_real, run_lerp),
    ROW("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", infer3_real, run_lerp),
};
AK_ROWS(ak_ops_select, rows);
