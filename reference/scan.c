/* Running sums and products along a dim; each element counts itself. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "walk.h"

static void cumsum(const double *x, double *y, int64_t n, const double *p) {
    (void)p;
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        y[i] = s += x[i];
}
static void cumprod(const double *x, double *y, int64_t n, const double *p) {
    (void)p;
    double s = 1;
    for (int64_t i = 0; i < n; i++)
        y[i] = s *= x[i];
}
static void logcumsumexp(const double *x, double *y, int64_t n, const double *p) {
    (void)p;
    double max = -INFINITY, s = 0; /* the sum so far is s * exp(max) */
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > max) {
            s = s * exp(max - x[i]) + 1;
            max = x[i];
        } else {
            s += max == -INFINITY && x[i] == -INFINITY ? 0 : exp(x[i] - max);
        }
        y[i] = max + log(s);
    }
}

static void whole_lanes(const struct ak_tensor *o, const struct ak_tensor *t, unsigned set, bool product) {
    struct ak_lanes from = ak_lanes_of(t, set), to = ak_lanes_of(o, set);
    uint64_t *v = ak_malloc((size_t)(from.length + 1) * sizeof *v);
    for (int64_t i = 0; i < from.n; i++) {
        ak_lane_load_i64(&from, i, (int64_t *)v);
        for (int64_t k = 1; k < from.length; k++)
            v[k] = product ? v[k] * v[k - 1] : v[k] + v[k - 1];
        ak_lane_store_i64(&to, i, (int64_t *)v);
    }
    free(v);
}

/* (self, dim, *, dtype): integers give i64 */
static int infer(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t || ak_dim(ak_int(c, 1), t->ndim, &d, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    return ak_out(c, ak_dtype_or(c, 2, ak_dtype_is_float(t->dtype) ? t->dtype : AK_I64), t->ndim, t->shape);
}
static int infer_real(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t || !ak_dtype_is_float(t->dtype)) return ak_bad(err, "a tensor of real numbers is wanted");
    return ak_dim(ak_int(c, 1), t->ndim, &d, err) ? -1 : ak_infer_same(c, err);
}
static int scan(struct ak_opcall *c, ak_lane_fn *fn, bool product, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    int d = 0;
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    unsigned set = t->ndim ? 1u << d : 0;
    if (ak_dtype_is_float(o->dtype))
        ak_map_lanes(o, t, set, fn, NULL);
    else
        whole_lanes(o, t, set, product);
    return 0;
}
static int run_cumsum(struct ak_opcall *c, struct ak_err *err) { return scan(c, cumsum, false, err); }
static int run_cumprod(struct ak_opcall *c, struct ak_err *err) { return scan(c, cumprod, true, err); }
static int run_logcumsumexp(struct ak_opcall *c, struct ak_err *err) { return scan(c, logcumsumexp, false, err); }

/* ---- diff(self, n, dim, prepend, append): x[i+1] - x[i], n times ---- */

static int diff_shape(const struct ak_opcall *c, int *d, int64_t *joined, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || t->ndim == 0) return ak_bad(err, "a tensor with dims is wanted");
    if (ak_dim(ak_int(c, 2), t->ndim, d, err)) return -1;
    *joined = t->shape[*d];
    for (size_t i = 3; i < 5; i++) {
        const struct ak_tensor *e = ak_arg(c, i);
        if (!e) continue;
        bool fits = e->ndim == t->ndim && e->dtype == t->dtype;
        for (int k = 0; fits && k < t->ndim; k++)
            fits = k == *d || e->shape[k] == t->shape[k];
        if (!fits) return ak_bad(err, "'%s' does not fit", c->op->args[i].name);
        *joined += e->shape[*d];
    }
    return 0;
}
static int infer_diff(struct ak_opcall *c, struct ak_err *err) {
    int d;
    int64_t joined = 0, n = ak_int(c, 1);
    if (diff_shape(c, &d, &joined, err)) return -1;
    if (n < 0) return ak_bad(err, "n is negative");
    struct ak_tensor o = *ak_arg(c, 0);
    o.shape[d] = joined > n ? joined - n : 0;
    return ak_out(c, o.dtype, o.ndim, o.shape);
}
static void put_lane(const struct ak_tensor *t, unsigned set, int64_t i, bool real, void *v, int64_t at, int64_t *length) {
    struct ak_lanes l = ak_lanes_of(t, set);
    if (real)
        ak_lane_load(&l, i, (double *)v + at);
    else
        ak_lane_load_i64(&l, i, (int64_t *)v + at);
    *length = at + l.length;
}
static int run_diff(struct ak_opcall *c, struct ak_err *err) {
    int d = 0;
    int64_t joined = 0, times = ak_int(c, 1);
    if (diff_shape(c, &d, &joined, err)) return -1;
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    bool real = ak_dtype_is_float(t->dtype), flag = t->dtype == AK_BOOL;
    struct ak_lanes to = ak_lanes_of(o, 1u << d);
    double *v = ak_malloc((size_t)(joined + 1) * sizeof *v);
    int64_t *w = (int64_t *)v;
    for (int64_t i = 0; i < to.n && ak_numel(o); i++) {
        int64_t at = 0;
        if (ak_arg(c, 3)) put_lane(ak_arg(c, 3), 1u << d, i, real, v, at, &at);
        put_lane(t, 1u << d, i, real, v, at, &at);
        if (ak_arg(c, 4)) put_lane(ak_arg(c, 4), 1u << d, i, real, v, at, &at);
        for (int64_t k = 0; k < times; k++)
            for (int64_t j = 0; j + 1 < at - k; j++) {
                if (real)
                    v[j] = v[j + 1] - v[j];
                else
                    w[j] = flag ? w[j + 1] != w[j] : (int64_t)((uint64_t)w[j + 1] - (uint64_t)w[j]);
            }
        if (real)
            ak_lane_store(&to, i, v);
        else
            ak_lane_store_i64(&to, i, w);
    }
    free(v);
    return 0;
}

static double flops(const struct ak_opcall *c) { return (double)ak_numel(&c->out[0]); }

static const struct ak_op rows[] = {
    {.schema = "aten.cumsum.default(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", .infer = infer, .run = run_cumsum, .flops = flops},
    {.schema = "aten.cumprod.default(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", .infer = infer, .run = run_cumprod, .flops = flops},
    {.schema = "aten.logcumsumexp.default(Tensor self, int dim) -> Tensor", .infer = infer_real, .run = run_logcumsumexp, .flops = flops},
    {.schema = "aten.diff.default(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     .infer = infer_diff,
     .run = run_diff,
     .flops = flops},
};
AK_ROWS(ak_ops_scan, rows);
