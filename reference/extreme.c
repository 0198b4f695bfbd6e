/* Extremes with their place: the first one of equals; NaN counts as the most extreme of all. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "walk.h"

static int64_t place(const double *v, int64_t n, double sign) {
    int64_t at = 0;
    for (int64_t i = 1; i < n && !isnan(v[at]); i++)
        if (sign * v[i] > sign * v[at] || isnan(v[i])) at = i;
    return at;
}
static int64_t whole_place(const int64_t *v, int64_t n, double sign) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (sign > 0 ? v[i] > v[at] : v[i] < v[at]) at = i;
    return at;
}

/* The place of each lane's extreme to `where`, its value to `value` if that is given. */
static void extremes(const struct ak_tensor *t, unsigned set, double sign, const struct ak_tensor *value, const struct ak_tensor *where) {
    struct ak_lanes l = ak_lanes_of(t, set);
    bool real = ak_dtype_is_float(t->dtype);
#pragma omp parallel if (ak_numel(t) > 1 << 15)
    {
        double *v = ak_malloc((size_t)(l.length + 1) * sizeof *v);
        int64_t *w = (int64_t *)v; /* of the same size; a lane uses one of the two */
#pragma omp for schedule(static)
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at;
            if (real) {
                ak_lane_load(&l, i, v);
                at = place(v, l.length, sign);
                if (value) ak_store_run(value->dtype, value->data, value->offset + i, 1, 1, &v[at]);
            } else {
                ak_lane_load_i64(&l, i, w);
                at = whole_place(w, l.length, sign);
                if (value) ak_store_run_i64(value->dtype, value->data, value->offset + i, 1, 1, &w[at]);
            }
            ak_store_run_i64(AK_I64, where->data, where->offset + i, 1, 1, &at);
        }
        free(v);
    }
}

/* argmax(self, dim=None, keepdim): over everything if dim is absent. max.dim(self, dim, keepdim) -> (values, indices) */
static int set_of(const struct ak_opcall *c, unsigned *set, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || ak_dim_set(c, 1, t->ndim, set, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    for (int i = 0; i < t->ndim; i++)
        if (*set >> i & 1 && t->shape[i] == 0) return ak_bad(err, "an empty dim has no extreme");
    return 0;
}
static int infer_place(struct ak_opcall *c, struct ak_err *err) {
    unsigned set = 0;
    return set_of(c, &set, err) ? -1 : ak_out_reduced(c, ak_arg(c, 0), set, ak_flag(c, 2), AK_I64);
}
static int infer_both(struct ak_opcall *c, struct ak_err *err) {
    unsigned set = 0;
    if (set_of(c, &set, err)) return -1;
    ak_out_reduced(c, ak_arg(c, 0), set, ak_flag(c, 2), ak_arg(c, 0)->dtype);
    return infer_place(c, err);
}
static int run_place(struct ak_opcall *c, double sign, struct ak_err *err) {
    unsigned set = 0;
    if (set_of(c, &set, err)) return -1;
    extremes(ak_arg(c, 0), set, sign, NULL, &c->out[0]);
    return 0;
}
static int run_both(struct ak_opcall *c, double sign, struct ak_err *err) {
    unsigned set = 0;
    if (set_of(c, &set, err)) return -1;
    extremes(ak_arg(c, 0), set, sign, &c->out[0], &c->out[1]);
    return 0;
}
static int run_argmax(struct ak_opcall *c, struct ak_err *err) { return run_place(c, 1, err); }
static int run_argmin(struct ak_opcall *c, struct ak_err *err) { return run_place(c, -1, err); }
static int run_max(struct ak_opcall *c, struct ak_err *err) { return run_both(c, 1, err); }
static int run_min(struct ak_opcall *c, struct ak_err *err) { return run_both(c, -1, err); }

static double flops(const struct ak_opcall *c) { return (double)ak_numel(ak_arg(c, 0)); }

#define ROW(s, i, r) {.schema = "aten." s, .infer = i, .run = r, .flops = flops}

static const struct ak_op rows[] = {
    ROW("argmax.default(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", infer_place, run_argmax),
    ROW("argmin.default(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", infer_place, run_argmin),
    ROW("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_both, run_max),
    ROW("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_both, run_min),
};
AK_ROWS(ak_ops_extreme, rows);
