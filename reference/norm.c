/* Norms over the last dims: layer_norm, rms_norm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "walk.h"

enum { INPUT, SHAPE, WEIGHT, BIAS, EPS };

/* The normalized dims are the last ones of the input, and the weight's and bias's shape. */
static int check(const struct ak_opcall *c, size_t affine, int *dims, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, INPUT);
    int64_t shape[AK_MAX_DIMS];
    if (!t || ak_list(c, SHAPE, dims, shape, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    if (!ak_dtype_is_float(t->dtype)) return ak_bad(err, "real numbers are wanted");
    if (*dims < 1 || *dims > t->ndim || memcmp(shape, t->shape + t->ndim - *dims, (size_t)*dims * sizeof *shape) != 0)
        return ak_bad(err, "normalized_shape is not that of the last dims");
    struct ak_tensor want = ak_tensor_new(t->dtype, *dims, shape);
    for (size_t i = WEIGHT; i < WEIGHT + affine; i++)
        if (ak_arg(c, i) && !ak_same_shape(ak_arg(c, i), &want)) return ak_bad(err, "'%s' has another shape than normalized_shape", c->op->args[i].name);
    return 0;
}

struct affine {
    double *weight, *bias, eps;
    bool centre;
};

/* y = (x - mean) / sqrt(var + eps) * weight + bias; without `centre` the mean counts as 0 */
static void normalise(const double *x, double *y, int64_t n, const struct affine *a, double *mean, double *scale) {
    double m = a->centre ? ak_sum(x, n) / (double)n : 0, s;
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - m) * (x[i] - m);
    s = 1 / sqrt(ak_sum(y, n) / (double)n + a->eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - m) * s;
    for (int64_t i = 0; a->weight && i < n; i++)
        y[i] *= a->weight[i];
    for (int64_t i = 0; a->bias && i < n; i++)
        y[i] += a->bias[i];
    *mean = m;
    *scale = s;
}

static void put(const struct ak_tensor *o, int64_t i, double v) { ak_store(o->dtype, o->data, o->offset + i, v); }

/* mean and rstd a lane go to out[1] and out[2] where the call has them */
static void lanes(struct ak_opcall *c, int dims, const struct affine *a) {
    const struct ak_tensor *t = ak_arg(c, INPUT);
    unsigned set = ((1u << dims) - 1) << (t->ndim - dims);
    struct ak_lanes from = ak_lanes_of(t, set), to = ak_lanes_of(&c->out[0], set);
#pragma omp parallel if (ak_numel(t) > 1 << 15)
    {
        double *x = ak_malloc((size_t)(2 * from.length + 1) * sizeof *x), *y = x + from.length, mean, scale;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < from.n; i++) {
            ak_lane_load(&from, i, x);
            normalise(x, y, from.length, a, &mean, &scale);
            ak_lane_store(&to, i, y);
            if (c->nout > 2) {
                put(&c->out[1], i, mean);
                put(&c->out[2], i, scale);
            }
        }
        free(x);
    }
}

static int infer_layer_norm(struct ak_opcall *c, struct ak_err *err) {
    int dims;
    return check(c, 2, &dims, err) ? -1 : ak_infer_same(c, err);
}
static int run_layer_norm(struct ak_opcall *c, struct ak_err *err) {
    int dims = 0;
    if (check(c, 2, &dims, err)) return -1;
    struct affine a = {.eps = ak_num(c, EPS), .centre = true};
    if (ak_arg(c, WEIGHT)) a.weight = ak_reals(ak_arg(c, WEIGHT));
    if (ak_arg(c, BIAS)) a.bias = ak_reals(ak_arg(c, BIAS));
    lanes(c, dims, &a);
    free(a.weight);
    free(a.bias);
    return 0;
}
static int infer_native_layer_norm(struct ak_opcall *c, struct ak_err *err) {
    int dims = 0;
    if (infer_layer_norm(c, err) || check(c, 2, &dims, err)) return -1;
    const struct ak_tensor *t = ak_arg(c, INPUT);
    unsigned set = ((1u << dims) - 1) << (t->ndim - dims);
    ak_out_reduced(c, t, set, true, t->dtype);
    return ak_out_reduced(c, t, set, true, t->dtype);
}

/* rms_norm(input, normalized_shape, weight, eps): eps absent is that of the dtype PyTorch computes in */
static int infer_rms_norm(struct ak_opcall *c, struct ak_err *err) {
    int dims;
    return check(c, 1, &dims, err) ? -1 : ak_infer_same(c, err);
}
static int run_rms_norm(struct ak_opcall *c, struct ak_err *err) {
    int dims = 0;
    if (check(c, 1, &dims, err)) return -1;
    struct affine a = {.eps = ak_none(c, 3) ? ak_dtype_eps(ak_arg(c, INPUT)->dtype == AK_F64 ? AK_F64 : AK_F32) : ak_num(c, 3)};
    if (ak_arg(c, WEIGHT)) a.weight = ak_reals(ak_arg(c, WEIGHT));
    lanes(c, dims, &a);
    free(a.weight);
    return 0;
}

/* 8 an element with mean, 5 without: sums, squares, scale, weight, bias. */
static double flops(const struct ak_opcall *c) { return (c->nin > 4 ? 8.0 : 5.0) * (double)ak_numel(&c->out[0]); }

static const struct ak_op rows[] = {
    {.schema = "aten.layer_norm.default(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
               "bool cudnn_enable=True) -> Tensor",
     .infer = infer_layer_norm,
     .run = run_layer_norm,
     .flops = flops},
    {.schema = "aten.native_layer_norm.default(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, "
               "Tensor, Tensor)",
     .infer = infer_native_layer_norm,
     .run = run_layer_norm,
     .flops = flops},
    {.schema = "aten.rms_norm.default(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
     .infer = infer_rms_norm,
     .run = run_rms_norm,
     .flops = flops},
};
AK_ROWS(ak_ops_norm, rows);
