/* Adaptive pools: window o of n outputs over `in` elements runs from floor(o in / n) to ceil((o + 1) in / n). */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "window.h"

static int window_of(const struct ak_opcall *c, int dims, struct ak_window *w, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0);
    *w = (struct ak_window){.dims = dims};
    if (!x || (x->ndim != dims + 1 && x->ndim != dims + 2)) return ak_bad(err, "an input of rank %d is wanted", dims + 2);
    if (ak_ints(c, 1, dims, 1, w->out, err)) return -1;
    for (int i = 0; i < dims; i++) {
        w->in[i] = x->shape[x->ndim - dims + i];
        if (w->out[i] < 0 || w->in[i] == 0) return ak_bad(err, "an output size is negative or a dim is empty");
    }
    return 0;
}

static int infer(struct ak_opcall *c, int dims, bool max, struct ak_err *err) {
    struct ak_window w;
    if (window_of(c, dims, &w, err)) return -1;
    struct ak_tensor o = *ak_arg(c, 0);
    if (!ak_dtype_is_float(o.dtype)) return ak_bad(err, "real numbers are wanted");
    for (int i = 0; i < dims; i++)
        o.shape[o.ndim - dims + i] = w.out[i];
    ak_out(c, o.dtype, o.ndim, o.shape);
    return max ? ak_out(c, AK_I64, o.ndim, o.shape) : 0;
}

/* Mean, or maximum and its place, of output `at`. */
static double pooled(const struct ak_window *w, const double *x, const int64_t *at, bool max, int64_t *where) {
    int64_t from[AK_WINDOW_DIMS], size[AK_WINDOW_DIMS], t[AK_WINDOW_DIMS];
    for (int i = 0; i < w->dims; i++) {
        from[i] = at[i] * w->in[i] / w->out[i];
        size[i] = ((at[i] + 1) * w->in[i] + w->out[i] - 1) / w->out[i] - from[i];
    }
    int64_t n = ak_product(w->dims, size);
    double sum = 0, best = -INFINITY;
    *where = -1;
    for (int64_t k = 0; k < n; k++) {
        int64_t p = 0;
        ak_unravel(w->dims, size, k, t);
        for (int i = 0; i < w->dims; i++)
            p = p * w->in[i] + from[i] + t[i];
        sum += x[p];
        if (*where < 0 || x[p] > best || isnan(x[p])) {
            best = x[p];
            *where = p;
        }
    }
    return max ? best : sum / (double)n;
}

static int run(struct ak_opcall *c, int dims, bool max, struct ak_err *err) {
    struct ak_window w;
    if (window_of(c, dims, &w, err)) return -1;
    const struct ak_tensor *x = ak_arg(c, 0), *o = &c->out[0];
    if (!ak_numel(o)) return 0;
    int64_t ins = ak_product(dims, w.in), outs = ak_product(dims, w.out), at[AK_WINDOW_DIMS], where;
    struct ak_lanes channels = ak_lanes_of(x, ((1u << dims) - 1) << (x->ndim - dims));
    double *v = ak_malloc((size_t)(ins + outs + 1) * sizeof *v), *y = v + ins;
    for (int64_t i = 0; i < channels.n; i++) {
        ak_lane_load(&channels, i, v);
        for (int64_t k = 0; k < outs; k++) {
            ak_unravel(dims, w.out, k, at);
            y[k] = pooled(&w, v, at, max, &where);
            if (max) ((int64_t *)c->out[1].data)[c->out[1].offset + i * outs + k] = where;
        }
        ak_store_run(o->dtype, o->data, o->offset + i * outs, 1, outs, y);
    }
    free(v);
    return 0;
}

static double flops(const struct ak_opcall *c) { return (double)ak_numel(ak_arg(c, 0)); }

#define FORM(name, dims, max)                                                                                          \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) { return infer(c, dims, max, err); }              \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) { return run(c, dims, max, err); }
FORM(avg1, 1, false)
FORM(avg2, 2, false)
FORM(avg3, 3, false)
FORM(max1, 1, true)
FORM(max2, 2, true)
FORM(max3, 3, true)

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name, .flops = flops}

static const struct ak_op rows[] = {
    ROW("adaptive_avg_pool1d.default(Tensor self, int[1] output_size) -> Tensor", avg1),
    ROW("adaptive_avg_pool2d.default(Tensor self, SymInt[2] output_size) -> Tensor", avg2),
    ROW("_adaptive_avg_pool2d.default(Tensor self, SymInt[2] output_size) -> Tensor", avg2),
    ROW("adaptive_avg_pool3d.default(Tensor self, SymInt[3] output_size) -> Tensor", avg3),
    ROW("adaptive_max_pool1d.default(Tensor self, int[1] output_size) -> (Tensor, Tensor)", max1),
    ROW("adaptive_max_pool2d.default(Tensor self, int[2] output_size) -> (Tensor, Tensor)", max2),
    ROW("adaptive_max_pool3d.default(Tensor self, int[3] output_size) -> (Tensor, Tensor)", max3),
};
AK_ROWS(ak_ops_adaptive, rows);
