/* Norms with statistics over images or groups of channels: x of [N, C, ...], each element
 * (x - mean) * scale[C] + shift[C]. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "walk.h"

static int check(const struct ak_opcall *c, size_t first, size_t n, int least, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || t->ndim < least || !ak_dtype_is_float(t->dtype)) return ak_bad(err, "real numbers [N, C, ...] are wanted");
    for (size_t i = first; i < first + n; i++) {
        const struct ak_tensor *v = ak_arg(c, i);
        if (v && (v->ndim != 1 || v->shape[0] != t->shape[1])) return ak_bad(err, "'%s' is not one a channel", c->op->args[i].name);
    }
    return 0;
}

static double *reals_or_null(const struct ak_tensor *t) { return t ? ak_reals(t) : NULL; }

/* mean and biased variance of v */
static void moments(const double *v, int64_t n, double *mean, double *var) {
    double s[8] = {0};
    *mean = ak_sum(v, n) / (double)n;
    for (int64_t i = 0; i < n; i++)
        s[i % 8] += (v[i] - *mean) * (v[i] - *mean);
    *var = ak_sum(s, 8) / (double)n;
}

struct affine {
    double *weight, *bias, eps;
};

static void affine_of(struct affine *a, const struct ak_opcall *c, size_t weight, size_t bias, size_t eps) {
    *a = (struct affine){reals_or_null(ak_arg(c, weight)), reals_or_null(ak_arg(c, bias)), ak_num(c, eps)};
}
static void affine_free(struct affine *a) {
    free(a->weight);
    free(a->bias);
}

static void apply(const struct affine *a, int64_t channel, double mean, double var, int64_t n, double *v) {
    double s = 1 / sqrt(var + a->eps), w = a->weight ? a->weight[channel] : 1, b = a->bias ? a->bias[channel] : 0;
    for (int64_t i = 0; i < n; i++)
        v[i] = (v[i] - mean) * s * w + b;
}

/* ---- batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps): a lane is a channel over all images ---- */

static int infer_batch_norm(struct ak_opcall *c, struct ak_err *err) {
    if (check(c, 1, 4, 2, err)) return -1;
    if (c->op->args[5].name[0] == 't' && ak_flag(c, 5)) return ak_infer_same(c, err); /* the running statistics are not kept up */
    if (!ak_arg(c, 3) || !ak_arg(c, 4)) return ak_bad(err, "running statistics are wanted in eval mode");
    return ak_infer_same(c, err);
}
static void batch_norm(struct ak_opcall *c, bool training, size_t eps) {
    const struct ak_tensor *t = ak_arg(c, 0);
    unsigned set = ((1u << t->ndim) - 1) & ~2u;
    struct ak_lanes from = ak_lanes_of(t, set), to = ak_lanes_of(&c->out[0], set);
    struct affine a;
    affine_of(&a, c, 1, 2, eps);
    double *mean = training ? NULL : ak_reals(ak_arg(c, 3)), *var = training ? NULL : ak_reals(ak_arg(c, 4));
#pragma omp parallel if (ak_numel(t) > 1 << 15)
    {
        double *v = ak_malloc((size_t)(from.length + 1) * sizeof *v), m, s;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < from.n; i++) {
            ak_lane_load(&from, i, v);
            if (training) moments(v, from.length, &m, &s);
            apply(&a, i, training ? m : mean[i], training ? s : var[i], from.length, v);
            ak_lane_store(&to, i, v);
        }
        free(v);
    }
    affine_free(&a);
    free(mean);
    free(var);
}
static int run_batch_norm(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    batch_norm(c, ak_flag(c, 5), 7);
    return 0;
}

/* _native_batch_norm_legit_no_training: (output, and two empty statistics) */
static int infer_native(struct ak_opcall *c, struct ak_err *err) {
    const int64_t none = 0;
    if (infer_batch_norm(c, err)) return -1;
    ak_out(c, c->out[0].dtype, 1, &none);
    return ak_out(c, c->out[0].dtype, 1, &none);
}
static int run_native(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    batch_norm(c, false, 6);
    return 0;
}

/* ---- group_norm(input, num_groups, weight, bias, eps): a lane is the channels of one group of one image.
 * instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps): groups of one channel ---- */

static int infer_group_norm(struct ak_opcall *c, struct ak_err *err) {
    int64_t groups = ak_int(c, 1);
    if (check(c, 2, 2, 2, err)) return -1;
    if (groups <= 0 || ak_arg(c, 0)->shape[1] % groups) return ak_bad(err, "%lld groups do not divide the channels", (long long)groups);
    return ak_infer_same(c, err);
}
static int infer_instance_norm(struct ak_opcall *c, struct ak_err *err) {
    if (check(c, 1, 4, 3, err)) return -1;
    if (!ak_flag(c, 5) && (!ak_arg(c, 3) || !ak_arg(c, 4))) return ak_bad(err, "running statistics are wanted in eval mode");
    return ak_infer_same(c, err);
}

/* One image's channels [from, from + n) as a tensor [n, ...]. */
static struct ak_tensor channels(const struct ak_tensor *t, int64_t image, int64_t from, int64_t n) {
    struct ak_tensor v = *t;
    v.ndim--;
    for (int i = 0; i < v.ndim; i++) {
        v.shape[i] = t->shape[i + 1];
        v.stride[i] = t->stride[i + 1];
    }
    v.shape[0] = n;
    v.offset += image * t->stride[0] + from * t->stride[1];
    return v;
}

static void group_norm(struct ak_opcall *c, int64_t groups, const struct affine *a) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t each = groups ? t->shape[1] / groups : 0, n = t->shape[0] * groups;
#pragma omp parallel for schedule(static) if (ak_numel(t) > 1 << 15)
    for (int64_t i = 0; i < n; i++) {
        struct ak_tensor from = channels(t, i / groups, i % groups * each, each), to = channels(&c->out[0], i / groups, i % groups * each, each);
        double *v = ak_reals(&from), mean, var;
        int64_t count = ak_numel(&from), space = count / each;
        moments(v, count, &mean, &var);
        for (int64_t k = 0; k < each; k++)
            apply(a, i % groups * each + k, mean, var, space, v + k * space);
        struct ak_lanes out = ak_lanes_of(&to, ~0u);
        ak_lane_store(&out, 0, v);
        free(v);
    }
}
static int run_group_norm(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    struct affine a;
    affine_of(&a, c, 2, 3, 4);
    if (ak_numel(&c->out[0])) group_norm(c, ak_int(c, 1), &a);
    affine_free(&a);
    return 0;
}
static int run_instance_norm(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    if (!ak_flag(c, 5)) {
        batch_norm(c, false, 7);
        return 0;
    }
    struct affine a;
    affine_of(&a, c, 1, 2, 7);
    if (ak_numel(&c->out[0])) group_norm(c, ak_arg(c, 0)->shape[1], &a);
    affine_free(&a);
    return 0;
}

/* 8 an element where the statistics are taken too, 4 where they are given. */
static double flops(const struct ak_opcall *c) { return 8 * (double)ak_numel(&c->out[0]); }
static double flops_eval(const struct ak_opcall *c) { return 4 * (double)ak_numel(&c->out[0]); }
static double flops_batch_norm(const struct ak_opcall *c) { return ak_flag(c, 5) ? flops(c) : flops_eval(c); }

static const struct ak_op rows[] = {
    {.schema = "aten.batch_norm.default(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
               "float momentum, float eps, bool cudnn_enabled) -> Tensor",
     .infer = infer_batch_norm,
     .run = run_batch_norm,
     .flops = flops_batch_norm},
    {.schema = "aten._native_batch_norm_legit_no_training.default(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
               "running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     .infer = infer_native,
     .run = run_native,
     .flops = flops_eval},
    {.schema = "aten.group_norm.default(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
               "cudnn_enabled=True) -> Tensor",
     .infer = infer_group_norm,
     .run = run_group_norm,
     .flops = flops},
    {.schema = "aten.instance_norm.default(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
               "use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
     .infer = infer_instance_norm,
     .run = run_instance_norm,
     .flops = flops},
};
AK_ROWS(ak_ops_batchnorm, rows);
