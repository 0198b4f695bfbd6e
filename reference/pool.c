/* Pools over windows of 1 to 3 dims. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
#include "window.h"

/* where the arguments stand; 0: nowhere */
struct form {
    int dims;
    bool average, indices;
    size_t dilation, ceil, padded, divisor;
};

/* The channels (and images) of x, each pooled by itself. */
static int window_of(const struct ak_opcall *c, struct form f, struct ak_window *w, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0);
    *w = (struct ak_window){.dims = f.dims};
    if (!x || (x->ndim != f.dims + 1 && x->ndim != f.dims + 2)) return ak_bad(err, "an input of rank %d is wanted", f.dims + 2);
    bool none = c->in[2].kind != AK_VAL_INT && c->in[2].ints.n == 0;
    if (ak_ints(c, 1, f.dims, 1, w->size, err) || ak_ints(c, none ? 1 : 2, f.dims, 1, w->stride, err) || ak_ints(c, 3, f.dims, 0, w->pad, err))
        return -1;
    for (int i = 0; i < f.dims; i++) {
        w->in[i] = x->shape[x->ndim - f.dims + i];
        w->dilation[i] = 1;
        if (w->pad[i] < 0 || w->pad[i] > w->size[i] / 2) return ak_bad(err, "the padding is more than half the kernel");
    }
    if (f.dilation && ak_ints(c, f.dilation, f.dims, 1, w->dilation, err)) return -1;
    if (f.divisor && !ak_none(c, f.divisor) && ak_int(c, f.divisor) == 0) return ak_bad(err, "the divisor is 0");
    return ak_window_out(w, 0, ak_flag(c, f.ceil), err);
}

static int infer(struct ak_opcall *c, struct form f, struct ak_err *err) {
    struct ak_window w;
    if (window_of(c, f, &w, err)) return -1;
    struct ak_tensor o = *ak_arg(c, 0);
    if (f.average && !ak_dtype_is_float(o.dtype)) return ak_bad(err, "real numbers are wanted");
    for (int i = 0; i < f.dims; i++)
        o.shape[o.ndim - f.dims + i] = w.out[i];
    ak_out(c, o.dtype, o.ndim, o.shape);
    return f.indices ? ak_out(c, AK_I64, o.ndim, o.shape) : 0;
}

/* Bounds of window o along dim i: the first element, one past the last that lies inside. */
static int64_t first_of(const struct ak_window *w, int i, int64_t o) { return o * w->stride[i] - w->pad[i]; }

/* Maximum and its place in the channel; NaN wins. */
static double highest(const struct ak_window *w, const double *x, const int64_t *o, int64_t *where) {
    int64_t taps = ak_product(w->dims, w->size), t[AK_WINDOW_DIMS];
    double max = -INFINITY;
    *where = -1;
    for (int64_t k = 0; k < taps; k++) {
        int64_t at = 0;
        bool inside = true;
        ak_unravel(w->dims, w->size, k, t);
        for (int i = 0; i < w->dims; i++) {
            int64_t p = first_of(w, i, o[i]) + t[i] * w->dilation[i];
            inside &= p >= 0 && p < w->in[i];
            at = at * w->in[i] + p;
        }
        if (inside && (*where < 0 || x[at] > max || isnan(x[at]))) {
            max = x[at];
            *where = at;
        }
    }
    return max;
}

/* Sum over the window divided by its size: with the padding counted (but not what ceil adds beyond it), or without, or as told. */
static double average(const struct ak_window *w, const double *x, const int64_t *o, bool padded, int64_t divisor) {
    int64_t from[AK_WINDOW_DIMS] = {0}, size[AK_WINDOW_DIMS], t[AK_WINDOW_DIMS], whole = 1;
    for (int i = 0; i < w->dims; i++) {
        int64_t first = first_of(w, i, o[i]), end = first + w->size[i];
        if (end > w->in[i] + w->pad[i]) end = w->in[i] + w->pad[i];
        whole *= end - first;
        from[i] = first > 0 ? first : 0;
        size[i] = (end < w->in[i] ? end : w->in[i]) - from[i];
        if (size[i] <= 0) return 0; /* a window of padding only */
    }
    int64_t n = ak_product(w->dims, size);
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0;
        ak_unravel(w->dims, size, k, t);
        for (int i = 0; i < w->dims; i++)
            at = at * w->in[i] + from[i] + t[i];
        sum += x[at];
    }
    return sum / (double)(divisor ? divisor : padded ? whole : n);
}

static int run(struct ak_opcall *c, struct form f, struct ak_err *err) {
    struct ak_window w;
    if (window_of(c, f, &w, err)) return -1;
    const struct ak_tensor *x = ak_arg(c, 0), *o = &c->out[0];
    int64_t ins = ak_product(w.dims, w.in), outs = ak_product(w.dims, w.out);
    unsigned set = ((1u << w.dims) - 1) << (x->ndim - w.dims);
    struct ak_lanes channels = ak_lanes_of(x, set);
    bool padded = f.padded && ak_flag(c, f.padded);
    int64_t divisor = f.divisor && !ak_none(c, f.divisor) ? ak_int(c, f.divisor) : 0;
#pragma omp parallel if (ak_numel(x) > 1 << 12)
    {
        double *v = ak_malloc((size_t)(ins + outs + 1) * sizeof *v), *y = v + ins;
        int64_t at[AK_WINDOW_DIMS], where = 0;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < channels.n; i++) {
            ak_lane_load(&channels, i, v);
            for (int64_t k = 0; k < outs; k++) {
                ak_unravel(w.dims, w.out, k, at);
                y[k] = f.average ? average(&w, v, at, padded, divisor) : highest(&w, v, at, &where);
                if (f.indices) ((int64_t *)c->out[1].data)[c->out[1].offset + i * outs + k] = where;
            }
            ak_store_run(o->dtype, o->data, o->offset + i * outs, 1, outs, y);
        }
        free(v);
    }
    return 0;
}

/* One an element of each window. */
static double count(const struct ak_opcall *c, struct form f) {
    struct ak_window w;
    struct ak_err err;
    return window_of(c, f, &w, &err) ? 0 : (double)ak_numel(&c->out[0]) * (double)ak_product(w.dims, w.size);
}

#define FORM(name, ...)                                                                                                \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) { return infer(c, (struct form){__VA_ARGS__}, err); } \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) { return run(c, (struct form){__VA_ARGS__}, err); } \
    static double flops_##name(const struct ak_opcall *c) { return count(c, (struct form){__VA_ARGS__}); }
FORM(max1, .dims = 1, .dilation = 4, .ceil = 5)
FORM(max2, .dims = 2, .dilation = 4, .ceil = 5)
FORM(max3, .dims = 3, .dilation = 4, .ceil = 5)
FORM(max1i, .dims = 1, .dilation = 4, .ceil = 5, .indices = true)
FORM(max2i, .dims = 2, .dilation = 4, .ceil = 5, .indices = true)
FORM(max3i, .dims = 3, .dilation = 4, .ceil = 5, .indices = true)
FORM(avg1, .dims = 1, .average = true, .ceil = 4, .padded = 5)
FORM(avg2, .dims = 2, .average = true, .ceil = 4, .padded = 5, .divisor = 6)
FORM(avg3, .dims = 3, .average = true, .ceil = 4, .padded = 5, .divisor = 6)

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name, .flops = flops_##name}
#define MAX_ARGS(n) "(Tensor self, int[" #n "] kernel_size, int[" #n "] stride=[], int[" #n "] padding=0, int[" #n "] dilation=1, bool ceil_mode=False) -> "

static const struct ak_op rows[] = {
    ROW("max_pool1d.default" MAX_ARGS(1) "Tensor", max1),
    ROW("max_pool2d.default" MAX_ARGS(2) "Tensor", max2),
    ROW("max_pool3d.default" MAX_ARGS(3) "Tensor", max3),
    ROW("max_pool1d_with_indices.default" MAX_ARGS(1) "(Tensor, Tensor)", max1i),
    ROW("max_pool2d_with_indices.default" MAX_ARGS(2) "(Tensor, Tensor)", max2i),
    ROW("max_pool3d_with_indices.default" MAX_ARGS(3) "(Tensor, Tensor)", max3i),
    ROW("avg_pool1d.default(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool "
        "count_include_pad=True) -> Tensor",
        avg1),
    ROW("avg_pool2d.default(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool "
        "count_include_pad=True, int? divisor_override=None) -> Tensor",
        avg2),
    ROW("avg_pool3d.default(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool "
        "count_include_pad=True, int? divisor_override=None) -> Tensor",
        avg3),
};
AK_ROWS(ak_ops_pool, rows);
