/* Reductions of all or some dims to one value a lane. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "walk.h"

typedef double real_fold(const double *v, int64_t n, double p);
typedef int64_t whole_fold(const int64_t *v, int64_t n, double p);

/* Every lane of argument 0 along the set, folded to out[0]; converted to dtype `as` first. */
static int fold(struct ak_opcall *c, unsigned set, enum ak_dtype as, real_fold *real, whole_fold *whole, double p) {
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    struct ak_lanes l = ak_lanes_of(t, set);
    bool is_real = ak_dtype_is_float(as);
#pragma omp parallel if (ak_numel(t) > 1 << 15 && l.n > 1)
    {
        void *v = ak_malloc((size_t)(l.length + 1) * sizeof(double));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < l.n; i++) {
            if (is_real) {
                ak_lane_load(&l, i, v);
                double r = real(v, l.length, p);
                ak_store_run(o->dtype, o->data, o->offset + i, 1, 1, &r);
            } else {
                ak_lane_load_i64(&l, i, v);
                int64_t r = whole(v, l.length, p);
                ak_store_run_i64(o->dtype, o->data, o->offset + i, 1, 1, &r);
            }
        }
        free(v);
    }
    return 0;
}

/* Outputs are row-major with the lanes in the order of the kept dims, so lane i is element i. */

static double sum(const double *v, int64_t n, double p) {
    (void)p;
    return ak_sum(v, n);
}
static int64_t whole_sum(const int64_t *v, int64_t n, double p) {
    (void)p;
    uint64_t s = 0;
    for (int64_t i = 0; i < n; i++)
        s += (uint64_t)v[i];
    return (int64_t)s;
}
static double mean(const double *v, int64_t n, double p) {
    (void)p;
    return ak_sum(v, n) / (double)n;
}
static double prod(const double *v, int64_t n, double p) {
    (void)p;
    double r = 1;
    for (int64_t i = 0; i < n; i++)
        r *= v[i];
    return r;
}
static int64_t whole_prod(const int64_t *v, int64_t n, double p) {
    (void)p;
    uint64_t r = 1;
    for (int64_t i = 0; i < n; i++)
        r *= (uint64_t)v[i];
    return (int64_t)r;
}
static double highest(const double *v, int64_t n, double p) {
    (void)p;
    double r = v[0];
    for (int64_t i = 1; i < n; i++)
        r = v[i] > r || isnan(v[i]) ? v[i] : r;
    return r;
}
static double lowest(const double *v, int64_t n, double p) {
    (void)p;
    double r = v[0];
    for (int64_t i = 1; i < n; i++)
        r = v[i] < r || isnan(v[i]) ? v[i] : r;
    return r;
}
static int64_t whole_highest(const int64_t *v, int64_t n, double p) {
    (void)p;
    int64_t r = v[0];
    for (int64_t i = 1; i < n; i++)
        r = v[i] > r ? v[i] : r;
    return r;
}
static int64_t whole_lowest(const int64_t *v, int64_t n, double p) {
    (void)p;
    int64_t r = v[0];
    for (int64_t i = 1; i < n; i++)
        r = v[i] < r ? v[i] : r;
    return r;
}
static double any(const double *v, int64_t n, double p) {
    (void)p;
    bool r = false;
    for (int64_t i = 0; i < n; i++)
        r |= v[i] != 0;
    return r;
}
static double all(const double *v, int64_t n, double p) {
    (void)p;
    bool r = true;
    for (int64_t i = 0; i < n; i++)
        r &= v[i] != 0;
    return r;
}
static int64_t whole_any(const int64_t *v, int64_t n, double p) {
    (void)p;
    bool r = false;
    for (int64_t i = 0; i < n; i++)
        r |= v[i] != 0;
    return r;
}
static int64_t whole_all(const int64_t *v, int64_t n, double p) {
    (void)p;
    bool r = true;
    for (int64_t i = 0; i < n; i++)
        r &= v[i] != 0;
    return r;
}
static double logsumexp(const double *v, int64_t n, double p) {
    double max = n ? highest(v, n, p) : -INFINITY, s = 0;
    if (isinf(max)) return max;
    for (int64_t i = 0; i < n; i++)
        s += exp(v[i] - max);
    return max + log(s);
}
/* p is the correction: 1 divides by n - 1 */
static double variance(const double *v, int64_t n, double p) {
    double m = ak_sum(v, n) / (double)n, s = 0;
    for (int64_t i = 0; i < n; i++)
        s += (v[i] - m) * (v[i] - m);
    return s / fmax(0, (double)n - p);
}
static double deviation(const double *v, int64_t n, double p) { return sqrt(variance(v, n, p)); }
static double norm(const double *v, int64_t n, double p) {
    double s = 0;
    if (p == INFINITY || p == -INFINITY) {
        s = n ? fabs(v[0]) : 0;
        for (int64_t i = 1; i < n; i++)
            s = isnan(v[i]) || (p > 0 ? fabs(v[i]) > s : fabs(v[i]) < s) ? fabs(v[i]) : s;
        return s;
    }
    for (int64_t i = 0; i < n; i++)
        s += p == 2 ? v[i] * v[i] : p == 1 ? fabs(v[i]) : p == 0 ? v[i] != 0 : pow(fabs(v[i]), p);
    return p == 2 ? sqrt(s) : p == 1 || p == 0 ? s : pow(s, 1 / p);
}
static double count_nonzero(const double *v, int64_t n, double p) {
    (void)p;
    int64_t r = 0;
    for (int64_t i = 0; i < n; i++)
        r += v[i] != 0;
    return (double)r;
}
static int64_t whole_count_nonzero(const int64_t *v, int64_t n, double p) {
    (void)p;
    int64_t r = 0;
    for (int64_t i = 0; i < n; i++)
        r += v[i] != 0;
    return r;
}

/* ---- calls: where the dims, keepdim and dtype stand among the arguments (0: nowhere) ---- */

struct form {
    size_t dims, keepdim, dtype;
    bool empty_is_none; /* an empty list of dims reduces nothing */
};

static unsigned every(const struct ak_tensor *t) { return (1u << t->ndim) - 1; }

static int set_of(const struct ak_opcall *c, struct form f, unsigned *set, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t) return ak_bad(err, "a tensor is wanted");
    *set = every(t);
    if (f.empty_is_none && c->in[f.dims].kind == AK_VAL_INTS && c->in[f.dims].ints.n == 0) {
        *set = 0;
        return 0;
    }
    return f.dims ? ak_dim_set(c, f.dims, t->ndim, set, err) : 0;
}

/* `dtype` the result's where the call names none. */
static int shaped(struct ak_opcall *c, struct form f, enum ak_dtype dtype, struct ak_err *err) {
    unsigned set = 0;
    if (set_of(c, f, &set, err)) return -1;
    return ak_out_reduced(c, ak_arg(c, 0), set, f.keepdim && ak_flag(c, f.keepdim), f.dtype ? ak_dtype_or(c, f.dtype, dtype) : dtype);
}

static enum ak_dtype own(const struct ak_opcall *c) { return ak_result_type(c, 0, 1); }
static enum ak_dtype summed(const struct ak_opcall *c) { return ak_dtype_is_float(own(c)) ? own(c) : AK_I64; }

static int needs_real(const struct ak_opcall *c, struct form f, struct ak_err *err) {
    enum ak_dtype d = f.dtype ? ak_dtype_or(c, f.dtype, own(c)) : own(c);
    return ak_dtype_is_float(d) ? 0 : ak_bad(err, "real numbers are wanted, not %s", ak_dtype_name(d));
}
static int needs_some(const struct ak_opcall *c, struct form f, struct ak_err *err) {
    unsigned set = 0;
    if (set_of(c, f, &set, err)) return -1;
    const struct ak_tensor *t = ak_arg(c, 0);
    for (int i = 0; i < t->ndim; i++)
        if (set >> i & 1 && t->shape[i] == 0) return ak_bad(err, "an empty dim has no extreme");
    return 0;
}

#define OP(name, form_init, check, dtype, as, real, whole, par)                                                        \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) {                                                 \
        struct form f = form_init;                                                                                     \
        return check ? -1 : shaped(c, f, dtype, err);                                                                  \
    }                                                                                                                  \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        struct form f = form_init;                                                                                     \
        unsigned set = 0;                                                                                              \
        return set_of(c, f, &set, err) ? -1 : fold(c, set, as, real, whole, par);                                      \
    }
#define FORM(d, k, t) {.dims = d, .keepdim = k, .dtype = t}
#define ALL_T ((struct form)FORM(0, 0, 1))
#define ALL ((struct form)FORM(0, 0, 0))
#define DIMS_T ((struct form)FORM(1, 2, 3))
#define DIMS ((struct form)FORM(1, 2, 0))

OP(sum, ALL_T, 0, summed(c), c->out[0].dtype, sum, whole_sum, 0)
OP(sum_dim, DIMS_T, 0, summed(c), c->out[0].dtype, sum, whole_sum, 0)
OP(mean, ALL_T, needs_real(c, f, err), own(c), c->out[0].dtype, mean, NULL, 0)
OP(mean_dim, DIMS_T, needs_real(c, f, err), own(c), c->out[0].dtype, mean, NULL, 0)
OP(prod, ALL_T, 0, summed(c), c->out[0].dtype, prod, whole_prod, 0)
OP(prod_dim, DIMS_T, 0, summed(c), c->out[0].dtype, prod, whole_prod, 0)
OP(amax, DIMS, needs_some(c, f, err), own(c), own(c), highest, whole_highest, 0)
OP(amin, DIMS, needs_some(c, f, err), own(c), own(c), lowest, whole_lowest, 0)
OP(max, ALL, needs_some(c, f, err), own(c), own(c), highest, whole_highest, 0)
OP(min, ALL, needs_some(c, f, err), own(c), own(c), lowest, whole_lowest, 0)
/* u8 stays u8, for the sake of old code */
static enum ak_dtype logical(const struct ak_opcall *c) { return own(c) == AK_U8 ? AK_U8 : AK_BOOL; }
OP(any, ALL, 0, logical(c), own(c), any, whole_any, 0)
OP(any_dim, DIMS, 0, logical(c), own(c), any, whole_any, 0)
OP(all, ALL, 0, logical(c), own(c), all, whole_all, 0)
OP(all_dim, DIMS, 0, logical(c), own(c), all, whole_all, 0)
OP(any_dims, ((struct form){.dims = 1, .keepdim = 2, .empty_is_none = true}), 0, logical(c), own(c), any, whole_any, 0)
OP(all_dims, ((struct form){.dims = 1, .keepdim = 2, .empty_is_none = true}), 0, logical(c), own(c), all, whole_all, 0)
OP(logsumexp, DIMS, 0, ak_floating(own(c)), ak_floating(own(c)), logsumexp, NULL, 0)
OP(count_nonzero, ((struct form)FORM(1, 0, 0)), 0, AK_I64, own(c), count_nonzero, whole_count_nonzero, 0)
OP(vector_norm, ((struct form)FORM(2, 3, 4)), needs_real(c, f, err), own(c), c->out[0].dtype, norm, NULL, ak_num(c, 1))
OP(norm, ALL, needs_real(c, f, err), own(c), own(c), norm, NULL, ak_num(c, 1))
OP(norm_dim, ((struct form)FORM(2, 3, 0)), needs_real(c, f, err), own(c), own(c), norm, NULL, ak_none(c, 1) ? 2 : ak_num(c, 1))

/* var(self, dim, *, correction, keepdim); var(self, dim, unbiased, keepdim); var(self, unbiased) */
static double correction(const struct ak_opcall *c, size_t i) { return ak_none(c, i) ? 1 : ak_num(c, i); }
#define CORRECTED ((struct form)FORM(1, 3, 0))
OP(var, CORRECTED, needs_real(c, f, err), own(c), own(c), variance, NULL, correction(c, 2))
OP(std, CORRECTED, needs_real(c, f, err), own(c), own(c), deviation, NULL, correction(c, 2))
OP(var_all, ALL, needs_real(c, f, err), own(c), own(c), variance, NULL, ak_num(c, 1))
OP(std_all, ALL, needs_real(c, f, err), own(c), own(c), deviation, NULL, ak_num(c, 1))

static int infer_var_mean(struct ak_opcall *c, struct ak_err *err) { return infer_var(c, err) || infer_var(c, err) ? -1 : 0; }
static int run_var_mean(struct ak_opcall *c, struct ak_err *err) {
    struct ak_opcall m = *c;
    unsigned set = 0;
    m.out[0] = c->out[1];
    if (run_var(c, err) || set_of(c, CORRECTED, &set, err)) return -1;
    return fold(&m, set, own(c), mean, NULL, 0);
}

static double flops(const struct ak_opcall *c) {
    const struct ak_tensor *t = ak_arg(c, 0);
    return t ? (double)ak_numel(t) : 0;
}

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name, .flops = flops}

static const struct ak_op rows[] = {
    ROW("sum.default(Tensor self, *, ScalarType? dtype=None) -> Tensor", sum),
    ROW("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", sum_dim),
    ROW("mean.default(Tensor self, *, ScalarType? dtype=None) -> Tensor", mean),
    ROW("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", mean_dim),
    ROW("prod.default(Tensor self, *, ScalarType? dtype=None) -> Tensor", prod),
    ROW("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", prod_dim),
    ROW("amax.default(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", amax),
    ROW("amin.default(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", amin),
    ROW("max.default(Tensor self) -> Tensor", max),
    ROW("min.default(Tensor self) -> Tensor", min),
    ROW("any.default(Tensor self) -> Tensor", any),
    ROW("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", any_dim),
    ROW("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", any_dims),
    ROW("all.default(Tensor self) -> Tensor", all),
    ROW("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", all_dim),
    ROW("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", all_dims),
    ROW("logsumexp.default(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", logsumexp),
    ROW("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", count_nonzero),
    ROW("count_nonzero.default(Tensor self, int? dim=None) -> Tensor", count_nonzero),
    ROW("linalg_vector_norm.default(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        vector_norm),
    ROW("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm),
    ROW("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm_dim),
    ROW("var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", var),
    ROW("var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", var),
    ROW("var.default(Tensor self, bool unbiased=True) -> Tensor", var_all),
    ROW("std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", std),
    ROW("std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", std),
    ROW("std.default(Tensor self, bool unbiased=True) -> Tensor", std_all),
    ROW("var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", var_mean),
    ROW("var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)", var_mean),
};
AK_ROWS(ak_ops_reduce, rows);
