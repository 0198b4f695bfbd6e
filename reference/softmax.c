/* Softmax and its kin along a dim. */
#include <math.h>

#include "walk.h"

static double highest(const double *x, int64_t n) {
    double max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max || isnan(x[i]) ? x[i] : max;
    return max;
}

static void softmax(const double *x, double *y, int64_t n, const double *p) {
    (void)p;
    double max = highest(x, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = exp(x[i] - max);
    double sum = ak_sum(y, n);
    for (int64_t i = 0; i < n; i++)
        y[i] /= sum;
}

static void log_softmax(const double *x, double *y, int64_t n, const double *p) {
    (void)p;
    double max = highest(x, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = exp(x[i] - max);
    double shift = max + log(ak_sum(y, n));
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - shift;
}

static int infer(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t || ak_dim(ak_int(c, 1), t->ndim, &d, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    enum ak_dtype dtype = ak_dtype_or(c, 2, t->dtype);
    if (!ak_dtype_is_float(dtype)) return ak_bad(err, "real numbers are wanted; give dtype");
    return ak_out(c, dtype, t->ndim, t->shape);
}

/* _softmax(self, dim, half_to_float) */
static int infer_half(struct ak_opcall *c, struct ak_err *err) {
    struct ak_opcall d = *c;
    d.in[2] = ak_flag(c, 2) ? (struct ak_val){.kind = AK_VAL_INT, .i = AK_F32} : (struct ak_val){0};
    if (infer(&d, err)) return -1;
    c->nout = 1;
    c->out[0] = d.out[0];
    return 0;
}

static int map(struct ak_opcall *c, ak_lane_fn *fn, struct ak_err *err) {
    int d = 0;
    if (ak_dim(ak_int(c, 1), c->out[0].ndim, &d, err)) return -1;
    ak_map_lanes(&c->out[0], ak_arg(c, 0), c->out[0].ndim ? 1u << d : 0, fn, NULL);
    return 0;
}
static int run_softmax(struct ak_opcall *c, struct ak_err *err) { return map(c, softmax, err); }
static int run_log_softmax(struct ak_opcall *c, struct ak_err *err) { return map(c, log_softmax, err); }

/* 5 an element: maximum, difference, exponential, sum, quotient. */
static double flops(const struct ak_opcall *c) { return 5.0 * (double)ak_numel(&c->out[0]); }

#define ROW(s, i, r) {.schema = s, .infer = i, .run = r, .flops = flops}

static const struct ak_op rows[] = {
    ROW("aten.softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", infer, run_softmax),
    ROW("aten._softmax.default(Tensor self, int dim, bool half_to_float) -> Tensor", infer_half, run_softmax),
    ROW("aten.log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", infer, run_log_softmax),
    ROW("aten._log_softmax.default(Tensor self, int dim, bool half_to_float) -> Tensor", infer_half, run_log_softmax),
};
AK_ROWS(ak_ops_softmax, rows);
