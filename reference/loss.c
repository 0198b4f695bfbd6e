/* Losses. reduction: 0 none, 1 mean, 2 sum. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "walk.h"

enum { NONE, MEAN, SUM };

static int check_reduction(const struct ak_opcall *c, size_t i, struct ak_err *err) {
    return ak_int(c, i) < NONE || ak_int(c, i) > SUM ? ak_bad(err, "the reduction is %lld, not 0, 1 or 2", (long long)ak_int(c, i)) : 0;
}

/* v[n] to the output, reduced; a mean is over `weight`. */
static void put(const struct ak_tensor *o, const double *v, int64_t n, int64_t reduction, double weight) {
    double total = reduction == NONE ? 0 : ak_sum(v, n);
    if (reduction == NONE)
        ak_store_run(o->dtype, o->data, o->offset, 1, n, v);
    else
        ak_store(o->dtype, o->data, o->offset, reduction == MEAN ? total / weight : total);
}

/* ---- cross entropy: input [N, C, d...] or [C]; targets of classes [N, d...] or of probabilities like the input ---- */

enum { INPUT, TARGET, WEIGHT, REDUCTION, IGNORE, SMOOTHING };

static int class_dim(const struct ak_tensor *t) { return t->ndim == 1 ? 0 : 1; }
static bool by_class(const struct ak_opcall *c) { return !ak_dtype_is_float(ak_arg(c, TARGET)->dtype); }

static int infer_classes(struct ak_opcall *c, bool probabilities, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, INPUT), *t = ak_arg(c, TARGET), *w = ak_arg(c, WEIGHT);
    if (!x || !t || x->ndim < 1 || !ak_dtype_is_float(x->dtype)) return ak_bad(err, "scores [N, C, ...] and targets are wanted");
    if (check_reduction(c, REDUCTION, err)) return -1;
    int d = class_dim(x);
    struct ak_opcall o = {0};
    ak_out_reduced(&o, x, 1u << d, false, x->dtype);
    bool fits = by_class(c) ? ak_same_shape(&o.out[0], t) && (t->dtype == AK_I64 || t->dtype == AK_U8 || t->dtype == AK_I32)
                            : probabilities && ak_same_shape(x, t);
    if (!fits) return ak_bad(err, "the target does not fit the scores");
    if (w && (w->ndim != 1 || w->shape[0] != x->shape[d])) return ak_bad(err, "the weight is not one a class");
    if (ak_int(c, REDUCTION) == NONE) return ak_out(c, x->dtype, o.out[0].ndim, o.out[0].shape);
    return ak_out(c, x->dtype, 0, NULL);
}

struct classes {
    const double *weight; /* one a class, or NULL */
    double smoothing;
    bool log_input; /* scores are log-probabilities already */
    int64_t ignore;
};

/* Turns scores into log-probabilities. */
static void log_softmax(double *x, int64_t n) {
    double max = -INFINITY, s = 0;
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max || isnan(x[i]) ? x[i] : max;
    for (int64_t i = 0; i < n; i++)
        s += exp(x[i] - max);
    for (int64_t i = 0; i < n; i++)
        x[i] -= max + log(s);
}

static double weight_of(const struct classes *k, int64_t i) { return k->weight ? k->weight[i] : 1; }

/* Loss of class `at`: (1 - s) w_at nll + s / C * sum of w nll; 0 for the ignored one. */
static double class_loss(const struct classes *k, const double *x, int64_t n, int64_t at, double *weight) {
    *weight = 0;
    if (at == k->ignore) return 0;
    double all = 0;
    for (int64_t i = 0; k->smoothing != 0 && i < n; i++)
        all -= weight_of(k, i) * x[i];
    *weight = weight_of(k, at);
    double own = -*weight * x[at];
    return k->smoothing == 0 ? own : (1 - k->smoothing) * own + k->smoothing / (double)n * all;
}

static double mixed_loss(const struct classes *k, const double *x, const double *target, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s -= (target[i] * (1 - k->smoothing) + k->smoothing / (double)n) * weight_of(k, i) * x[i];
    return s;
}

static int losses(struct ak_opcall *c, const struct classes *k, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, INPUT), *t = ak_arg(c, TARGET);
    unsigned set = 1u << class_dim(x);
    struct ak_lanes scores = ak_lanes_of(x, set), target = ak_lanes_of(t, by_class(c) ? 0 : set);
    int64_t *at = by_class(c) ? ak_wholes(t) : NULL, n = scores.length, bad = -1;
    double *v = ak_malloc((size_t)(scores.n + 1) * sizeof *v), *w = ak_malloc((size_t)(scores.n + 1) * sizeof *w);
    for (int64_t i = 0; at && i < scores.n; i++)
        if (at[i] != k->ignore && (at[i] < 0 || at[i] >= n)) bad = i;
    if (bad < 0) {
#pragma omp parallel if (ak_numel(x) > 1 << 15)
        {
            double *row = ak_malloc((size_t)(2 * n + 1) * sizeof *row);
#pragma omp for schedule(static)
            for (int64_t i = 0; i < scores.n; i++) {
                ak_lane_load(&scores, i, row);
                if (!k->log_input) log_softmax(row, n);
                w[i] = 1;
                if (at) {
                    v[i] = class_loss(k, row, n, at[i], &w[i]);
                } else {
                    ak_lane_load(&target, i, row + n);
                    v[i] = mixed_loss(k, row, row + n, n);
                }
            }
            free(row);
        }
        put(&c->out[0], v, scores.n, ak_int(c, REDUCTION), ak_sum(w, scores.n));
    } else {
        ak_bad(err, "target %lld is no class of %lld", (long long)at[bad], (long long)n);
    }
    free(at);
    free(v);
    free(w);
    return bad < 0 ? 0 : -1;
}

static int run_classes(struct ak_opcall *c, struct classes k, struct ak_err *err) {
    double *weight = ak_arg(c, WEIGHT) ? ak_reals(ak_arg(c, WEIGHT)) : NULL;
    k.weight = weight;
    k.ignore = ak_int(c, IGNORE);
    int rc = losses(c, &k, err);
    free(weight);
    return rc;
}

static int infer_cross_entropy(struct ak_opcall *c, struct ak_err *err) {
    double s = ak_num(c, SMOOTHING);
    if (!(s >= 0 && s <= 1)) return ak_bad(err, "label_smoothing is not between 0 and 1");
    return infer_classes(c, true, err);
}
static int run_cross_entropy(struct ak_opcall *c, struct ak_err *err) {
    return run_classes(c, (struct classes){.smoothing = ak_num(c, SMOOTHING)}, err);
}
static int infer_nll(struct ak_opcall *c, struct ak_err *err) { return infer_classes(c, false, err); }
static int run_nll(struct ak_opcall *c, struct ak_err *err) { return run_classes(c, (struct classes){.log_input = true}, err); }

/* (output, total weight) */
static int infer_nll_forward(struct ak_opcall *c, struct ak_err *err) {
    return infer_nll(c, err) ? -1 : ak_out(c, ak_arg(c, INPUT)->dtype, 0, NULL);
}
static int run_nll_forward(struct ak_opcall *c, struct ak_err *err) {
    if (run_nll(c, err)) return -1;
    double *weight = ak_arg(c, WEIGHT) ? ak_reals(ak_arg(c, WEIGHT)) : NULL, total = 0;
    int64_t *at = ak_wholes(ak_arg(c, TARGET)), n = ak_numel(ak_arg(c, TARGET));
    for (int64_t i = 0; i < n && ak_int(c, REDUCTION) != NONE; i++)
        if (at[i] != ak_int(c, IGNORE)) total += weight ? weight[at[i]] : 1;
    ak_store(c->out[1].dtype, c->out[1].data, c->out[1].offset, total);
    free(weight);
    free(at);
    return 0;
}

/* ---- pointwise losses of an input and a target that broadcast ---- */

static int infer_pair(struct ak_opcall *c, size_t reduction, struct ak_err *err) {
    if (!ak_arg(c, 0) || !ak_arg(c, 1)) return ak_bad(err, "two tensors are wanted");
    if (check_reduction(c, reduction, err) || ak_out_broadcast(c, 0, 2, (int)ak_floating(ak_result_type(c, 0, 2)), err)) return -1;
    if (ak_int(c, reduction) == NONE) return 0;
    c->out[0] = ak_tensor_new(c->out[0].dtype, 0, NULL);
    return 0;
}

static int run_pair(struct ak_opcall *c, size_t reduction, double (*f)(double x, double y, double p), double p, struct ak_err *err) {
    int ndim = 0;
    int64_t shape[AK_MAX_DIMS];
    if (ak_broadcast(&ndim, shape, ak_arg(c, 0), err) || ak_broadcast(&ndim, shape, ak_arg(c, 1), err)) return -1;
    struct ak_tensor a = ak_expanded(ak_arg(c, 0), ndim, shape), b = ak_expanded(ak_arg(c, 1), ndim, shape);
    double *x = ak_reals(&a), *y = ak_reals(&b);
    int64_t n = ak_numel(&a);
    for (int64_t i = 0; i < n; i++)
        x[i] = f(x[i], y[i], p);
    put(&c->out[0], x, n, ak_int(c, reduction), (double)n);
    free(x);
    free(y);
    return 0;
}

static double squared(double x, double y, double p) {
    (void)p;
    return (x - y) * (x - y);
}
static double absolute(double x, double y, double p) {
    (void)p;
    return fabs(x - y);
}
static double smooth(double x, double y, double beta) {
    double d = fabs(x - y);
    return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
}
static double huber(double x, double y, double delta) {
    double d = fabs(x - y);
    return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
}
/* x is a log-probability; with log_target y is one too */
static double divergence(double x, double y, double log_target) {
    if (log_target != 0) return exp(y) * (y - x);
    return y == 0 ? 0 : y * (log(y) - x);
}
static double cross(double x, double y, double p) {
    (void)p;
    return -(y * fmax(log(x), -100) + (1 - y) * fmax(log1p(-x), -100));
}
static double cross_logits(double x, double y, double p) {
    (void)p;
    return (1 - y) * x + fmax(-x, 0) + log1p(exp(-fabs(x)));
}

#define PAIR(name, at, f, par)                                                                                         \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) { return infer_pair(c, at, err); }                \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) { return run_pair(c, at, f, par, err); }
PAIR(mse, 2, squared, 0)
PAIR(l1, 2, absolute, 0)
PAIR(smooth_l1, 2, smooth, ak_num(c, 3))
PAIR(huber, 2, huber, ak_num(c, 3))
PAIR(kl_div, 2, divergence, ak_num(c, 3))

/* a weight of its own is not supported: nothing met so far uses one */
static int unweighted(const struct ak_opcall *c, struct ak_err *err) {
    for (size_t i = 2; i + 1 < c->nin; i++)
        if (!ak_none(c, i)) return ak_bad(err, "'%s' is not supported", c->op->args[i].name);
    return 0;
}
static int infer_bce(struct ak_opcall *c, struct ak_err *err) { return unweighted(c, err) ? -1 : infer_pair(c, c->nin - 1, err); }
static int run_bce(struct ak_opcall *c, struct ak_err *err) { return run_pair(c, 3, cross, 0, err); }
static int run_bce_logits(struct ak_opcall *c, struct ak_err *err) { return run_pair(c, 4, cross_logits, 0, err); }

/* ---- triplet margin: max(0, |a - p| - |a - n| + margin), or with swap the smaller of |a - n| and |p - n| ---- */

static int infer_triplet(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *a = ak_arg(c, 0);
    for (size_t i = 0; i < 3; i++)
        if (!ak_arg(c, i) || !ak_same_shape(a, ak_arg(c, i)) || a->ndim == 0) return ak_bad(err, "three tensors of one shape are wanted");
    if (check_reduction(c, 7, err)) return -1;
    if (ak_int(c, 7) == NONE) return ak_out_reduced(c, a, 1u << (a->ndim - 1), false, a->dtype);
    return ak_out(c, a->dtype, 0, NULL);
}
static double distance(const double *x, const double *y, int64_t n, double p, double eps) {
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += pow(fabs(x[i] - y[i] + eps), p);
    return pow(s, 1 / p);
}
static int run_triplet(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t k = t->shape[t->ndim - 1], n = k ? ak_numel(t) / k : 0;
    double *a = ak_reals(t), *b = ak_reals(ak_arg(c, 1)), *d = ak_reals(ak_arg(c, 2)), *v = ak_malloc((size_t)(n + 1) * sizeof *v);
    double margin = ak_num(c, 3), p = ak_num(c, 4), eps = ak_num(c, 5);
    for (int64_t i = 0; i < n; i++) {
        double far = distance(a + i * k, d + i * k, k, p, eps);
        if (ak_flag(c, 6)) far = fmin(far, distance(b + i * k, d + i * k, k, p, eps));
        v[i] = fmax(0, distance(a + i * k, b + i * k, k, p, eps) - far + margin);
    }
    put(&c->out[0], v, n, ak_int(c, 7), (double)n);
    free(a);
    free(b);
    free(d);
    free(v);
    return 0;
}

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name}

static const struct ak_op rows[] = {
    ROW("cross_entropy_loss.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100, float "
        "label_smoothing=0.0) -> Tensor",
        cross_entropy),
    ROW("nll_loss.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor", nll),
    ROW("nll_loss_nd.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor", nll),
    ROW("nll_loss_forward.default(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor "
        "total_weight)",
        nll_forward),
    ROW("mse_loss.default(Tensor self, Tensor target, int reduction=Mean) -> Tensor", mse),
    ROW("l1_loss.default(Tensor self, Tensor target, int reduction=Mean) -> Tensor", l1),
    ROW("smooth_l1_loss.default(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor", smooth_l1),
    ROW("huber_loss.default(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor", huber),
    ROW("kl_div.default(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor", kl_div),
    ROW("binary_cross_entropy.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor", bce),
    {.schema = "aten.binary_cross_entropy_with_logits.default(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int "
               "reduction=Mean) -> Tensor",
     .infer = infer_bce,
     .run = run_bce_logits},
    ROW("triplet_margin_loss.default(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06, bool "
        "swap=False, int reduction=Mean) -> Tensor",
        triplet),
};
AK_ROWS(ak_ops_loss, rows);
