/* Orders along a dim: stable, so equal elements keep theirs (PyTorch leaves it open); NaN counts as the largest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "walk.h"

struct item {
    double real;
    int64_t whole, at;
};

static int order(const struct item *a, const struct item *b) {
    if (isnan(a->real) || isnan(b->real)) return isnan(a->real) - isnan(b->real);
    if (a->real != b->real) return a->real < b->real ? -1 : 1;
    return a->whole < b->whole ? -1 : a->whole > b->whole;
}
static int up(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    int r = order(x, y);
    return r ? r : x->at < y->at ? -1 : 1;
}
static int down(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    int r = order(y, x);
    return r ? r : x->at < y->at ? -1 : 1;
}

static void load(const struct ak_lanes *l, int64_t i, struct item *v, double *real, int64_t *whole) {
    bool is_real = ak_dtype_is_float(l->inner.dtype);
    if (is_real)
        ak_lane_load(l, i, real);
    else
        ak_lane_load_i64(l, i, whole);
    for (int64_t k = 0; k < l->length; k++)
        v[k] = (struct item){.real = is_real ? real[k] : 0, .whole = is_real ? 0 : whole[k], .at = k};
}

/* As many of each lane's sorted elements as the outputs hold: values if wanted, and places. */
static int sorted(struct ak_opcall *c, int64_t dim, bool descending, const struct ak_tensor *values, const struct ak_tensor *places,
                  struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d = 0;
    if (ak_dim(dim, t->ndim, &d, err)) return -1;
    unsigned set = t->ndim ? 1u << d : 0;
    struct ak_lanes from = ak_lanes_of(t, set), to = ak_lanes_of(places, set), val = ak_lanes_of(values ? values : places, set);
    size_t room = (size_t)(from.length + 1);
    struct item *v = ak_malloc(room * sizeof *v);
    double *real = ak_malloc(room * sizeof *real);
    int64_t *whole = ak_malloc(room * sizeof *whole);
    for (int64_t i = 0; i < from.n; i++) {
        load(&from, i, v, real, whole);
        qsort(v, (size_t)from.length, sizeof *v, descending ? down : up);
        for (int64_t k = 0; k < to.length; k++) {
            real[k] = v[k].real;
            whole[k] = v[k].whole;
        }
        if (values && ak_dtype_is_float(t->dtype)) ak_lane_store(&val, i, real);
        if (values && !ak_dtype_is_float(t->dtype)) ak_lane_store_i64(&val, i, whole);
        for (int64_t k = 0; k < to.length; k++)
            whole[k] = v[k].at;
        ak_lane_store_i64(&to, i, whole);
    }
    free(v);
    free(real);
    free(whole);
    return 0;
}

static int infer_sort(struct ak_opcall *c, size_t dim, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t || ak_dim(ak_int(c, dim), t->ndim, &d, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    ak_out(c, t->dtype, t->ndim, t->shape);
    return ak_out(c, AK_I64, t->ndim, t->shape);
}
static int infer_sort_plain(struct ak_opcall *c, struct ak_err *err) { return infer_sort(c, 1, err); }
static int infer_sort_stable(struct ak_opcall *c, struct ak_err *err) { return infer_sort(c, 2, err); }
static int infer_argsort(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int d;
    if (!t || ak_dim(ak_int(c, 1), t->ndim, &d, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    return ak_out(c, AK_I64, t->ndim, t->shape);
}
static int run_sort_plain(struct ak_opcall *c, struct ak_err *err) { return sorted(c, ak_int(c, 1), ak_flag(c, 2), &c->out[0], &c->out[1], err); }
static int run_sort_stable(struct ak_opcall *c, struct ak_err *err) { return sorted(c, ak_int(c, 2), ak_flag(c, 3), &c->out[0], &c->out[1], err); }
static int run_argsort(struct ak_opcall *c, struct ak_err *err) { return sorted(c, ak_int(c, 1), ak_flag(c, 2), NULL, &c->out[0], err); }

/* topk(self, k, dim, largest, sorted) */
static int infer_topk(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t k = ak_int(c, 1);
    int d;
    if (!t || ak_dim(ak_int(c, 2), t->ndim, &d, err)) return t ? -1 : ak_bad(err, "a tensor is wanted");
    if (k < 0 || k > (t->ndim ? t->shape[d] : 1)) return ak_bad(err, "k is %lld", (long long)k);
    struct ak_tensor o = *t;
    if (o.ndim) o.shape[d] = k;
    ak_out(c, t->dtype, o.ndim, o.shape);
    return ak_out(c, AK_I64, o.ndim, o.shape);
}
static int run_topk(struct ak_opcall *c, struct ak_err *err) { return sorted(c, ak_int(c, 2), ak_flag(c, 3), &c->out[0], &c->out[1], err); }

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name}

static const struct ak_op rows[] = {
    ROW("sort.default(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort_plain),
    ROW("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort_stable),
    ROW("argsort.default(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort),
    ROW("topk.default(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", topk),
};
AK_ROWS(ak_ops_sort, rows);
