/* Convolutions as matrix products: the windows of a block of outputs become a matrix of doubles (im2col);
 * transposed ones are the product first, then its windows added up where they overlap (col2im). */
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "mem.h"
#include "window.h"

static const int64_t LONGEST = 1LL << 36; /* with MOST: no product overflows */
enum { BLOCK = 1 << 21, MOST = 1 << 24 }; /* doubles of a block of windows; what a stride, dilation or padding may be */

struct conv {
    struct ak_window w;
    bool transposed, batched;
    int64_t extra[AK_WINDOW_DIMS], back[AK_WINDOW_DIMS]; /* output_padding; more padding behind than in front ("same") */
    int64_t groups, images, cin, cout; /* channels of one group */
};

/* where the arguments stand; 0: nowhere */
struct form {
    int dims;
    bool transposed;
    size_t stride, padding, dilation, groups, extra, flag;
};

int ak_window_out(struct ak_window *w, int64_t more, bool ceil, struct ak_err *err) {
    for (int i = 0; i < w->dims; i++) {
        if (w->in[i] > LONGEST || w->size[i] <= 0 || w->size[i] > MOST || w->stride[i] <= 0 || w->stride[i] > MOST || w->dilation[i] <= 0 || w->pad[i] < 0 || w->pad[i] > MOST || w->dilation[i] > MOST)
            return ak_bad(err, "a kernel size, stride, dilation or padding is out of range");
        int64_t room = w->in[i] + 2 * w->pad[i] + more - w->dilation[i] * (w->size[i] - 1) - 1;
        if (ceil) room += w->stride[i] - 1;
        if (room < 0) return ak_bad(err, "the kernel is larger than the padded input");
        w->out[i] = room / w->stride[i] + 1;
        if (ceil && (w->out[i] - 1) * w->stride[i] >= w->in[i] + w->pad[i]) w->out[i]--;
    }
    return 0;
}

/* padding="same": what is missing to keep the size, the odd one behind */
static int named_padding(const struct ak_opcall *c, size_t i, struct conv *v, struct ak_err *err) {
    bool same = strcmp(c->in[i].s, "same") == 0;
    if (!same && strcmp(c->in[i].s, "valid") != 0) return ak_bad(err, "padding is same or valid, not '%s'", c->in[i].s);
    for (int d = 0; d < v->w.dims; d++) {
        int64_t total = same ? v->w.dilation[d] * (v->w.size[d] - 1) : 0;
        if (same && v->w.stride[d] != 1) return ak_bad(err, "padding same wants stride 1");
        v->w.pad[d] = total / 2;
        v->back[d] = total % 2;
    }
    return 0;
}

static int sizes(struct conv *v, struct ak_err *err) {
    struct ak_window *w = &v->w;
    if (!v->transposed) {
        struct ak_window wide = *w;
        for (int d = 0; d < w->dims; d++)
            wide.in[d] += v->back[d];
        if (ak_window_out(&wide, 0, false, err)) return -1;
        memcpy(w->out, wide.out, sizeof w->out);
        return 0;
    }
    for (int d = 0; d < w->dims; d++) {
        if (w->in[d] > LONGEST || w->stride[d] <= 0 || w->dilation[d] <= 0 || w->pad[d] < 0 || v->extra[d] < 0 || w->size[d] <= 0 || w->stride[d] > MOST ||
            w->dilation[d] > MOST || w->pad[d] > MOST || v->extra[d] > MOST)
            return ak_bad(err, "a stride, dilation or padding is out of range");
        if (v->extra[d] >= w->stride[d] && v->extra[d] >= w->dilation[d]) return ak_bad(err, "output_padding is not below stride or dilation");
        w->out[d] = (w->in[d] - 1) * w->stride[d] - 2 * w->pad[d] + w->dilation[d] * (w->size[d] - 1) + v->extra[d] + 1;
        if (w->out[d] < 0) return ak_bad(err, "nothing is left of dim %d", d);
    }
    return 0;
}

static int conv_of(const struct ak_opcall *c, struct form f, struct conv *v, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0), *k = ak_arg(c, 1), *b = ak_arg(c, 2);
    *v = (struct conv){.w.dims = f.dims, .transposed = f.flag ? ak_flag(c, f.flag) : f.transposed};
    if (f.dims == 0 && k) v->w.dims = k->ndim - 2;
    int n = v->w.dims;
    if (!x || !k || n < 1 || n > AK_WINDOW_DIMS || k->ndim != n + 2 || (x->ndim != n + 2 && x->ndim != n + 1))
        return ak_bad(err, "an input [N, C, ...] and a weight of rank %d are wanted", n + 2);
    if (x->dtype != k->dtype || (b && b->dtype != x->dtype) || !ak_dtype_is_float(x->dtype)) return ak_bad(err, "the dtypes are not one real type");
    v->batched = x->ndim == n + 2;
    v->images = v->batched ? x->shape[0] : 1;
    v->groups = ak_int(c, f.groups);
    int64_t channels = x->shape[x->ndim - n - 1], lead = k->shape[0];
    if (v->groups < 1 || channels % v->groups || lead % v->groups) return ak_bad(err, "%lld groups do not divide the channels", (long long)v->groups);
    v->cin = channels / v->groups;
    v->cout = v->transposed ? k->shape[1] : lead / v->groups;
    if (v->transposed ? lead != channels : k->shape[1] != v->cin)
        return ak_bad(err, "the weight is for %lld input channels", (long long)(v->transposed ? lead : k->shape[1] * v->groups));
    if (b && (b->ndim != 1 || b->shape[0] != v->cout * v->groups)) return ak_bad(err, "the bias is not one an output channel");
    for (int d = 0; d < n; d++) {
        v->w.in[d] = x->shape[x->ndim - n + d];
        v->w.size[d] = k->shape[2 + d];
    }
    if (ak_ints(c, f.stride, n, 1, v->w.stride, err) || ak_ints(c, f.dilation, n, 1, v->w.dilation, err)) return -1;
    if (c->in[f.padding].kind == AK_VAL_STR ? named_padding(c, f.padding, v, err) : ak_ints(c, f.padding, n, 0, v->w.pad, err)) return -1;
    if (f.extra && ak_ints(c, f.extra, n, 0, v->extra, err)) return -1;
    return sizes(v, err);
}

static int infer(struct ak_opcall *c, struct form f, struct ak_err *err) {
    struct conv v;
    if (conv_of(c, f, &v, err)) return -1;
    int64_t shape[AK_WINDOW_DIMS + 2] = {v.images};
    int n = v.batched;
    shape[n++] = v.cout * v.groups;
    for (int d = 0; d < v.w.dims; d++)
        shape[n++] = v.w.out[d];
    return ak_out(c, ak_arg(c, 0)->dtype, n, shape);
}

/* ---- forward ---- */

/* One row of the matrix: kernel element `tap` of a channel for the outputs from..from+n. */
static void window_row(const struct conv *v, const double *channel, int64_t tap, int64_t from, int64_t n, double *to) {
    const struct ak_window *w = &v->w;
    int64_t t[AK_WINDOW_DIMS], o[AK_WINDOW_DIMS];
    int last = w->dims - 1;
    ak_unravel(w->dims, w->size, tap, t);
    for (int64_t i = 0; i < n;) { /* run by run along the last dim */
        ak_unravel(w->dims, w->out, from + i, o);
        int64_t run = w->out[last] - o[last], at = 0;
        bool inside = true;
        if (run > n - i) run = n - i;
        for (int d = 0; d < last; d++) {
            int64_t p = o[d] * w->stride[d] - w->pad[d] + t[d] * w->dilation[d];
            inside &= p >= 0 && p < w->in[d];
            at = at * w->in[d] + p;
        }
        int64_t p = o[last] * w->stride[last] - w->pad[last] + t[last] * w->dilation[last];
        const double *line = channel + (inside ? at * w->in[last] : 0);
        for (int64_t j = 0; j < run; j++, p += w->stride[last])
            to[i + j] = inside && p >= 0 && p < w->in[last] ? line[p] : 0;
        i += run;
    }
}

static int64_t image_at(const struct conv *v, const struct ak_tensor *t, int64_t image, int64_t channel) {
    return t->offset + (v->batched ? image * t->stride[0] : 0) + channel * t->stride[v->batched];
}

static void forward_group(struct ak_opcall *c, const struct conv *v, const double *weight, int64_t image, int64_t group, double *cols) {
    const struct ak_tensor *x = ak_arg(c, 0), *b = ak_arg(c, 2), *o = &c->out[0];
    int64_t taps = ak_product(v->w.dims, v->w.size), k = v->cin * taps, outs = ak_product(v->w.dims, v->w.out), ins = ak_product(v->w.dims, v->w.in);
    int64_t step = BLOCK / (k ? k : 1) + 1;
    struct ak_tensor part = *x;
    part.ndim = v->w.dims + 1;
    for (int d = 0; d < part.ndim; d++) {
        part.shape[d] = d ? v->w.in[d - 1] : v->cin;
        part.stride[d] = x->stride[d + v->batched];
    }
    part.offset = image_at(v, x, image, group * v->cin);
    double *in = ak_reals(&part);
    for (int64_t from = 0; from < outs; from += step) {
        int64_t n = outs - from < step ? outs - from : step;
#pragma omp parallel for schedule(static) if (k * n > 1 << 15)
        for (int64_t r = 0; r < k; r++)
            window_row(v, in + r / taps * ins, r % taps, from, n, cols + r * n);
        struct ak_gemm g = {.m = v->cout, .n = n, .k = k, .alpha = 1, .beta = 1};
        g.a = (struct ak_mat){.dtype = AK_F64, .data = (void *)(weight + group * v->cout * k), .row = k, .col = 1};
        g.b = (struct ak_mat){.dtype = AK_F64, .data = cols, .row = n, .col = 1};
        g.out = (struct ak_mat){.dtype = o->dtype, .data = o->data, .at = image_at(v, o, image, group * v->cout) + from, .row = outs, .col = 1};
        if (b) g.add = (struct ak_mat){.dtype = b->dtype, .data = b->data, .at = b->offset + group * v->cout * b->stride[0], .row = b->stride[0]};
        ak_gemm(&g);
    }
    free(in);
}

/* ---- transposed ---- */

/* The products of one channel [taps, ins] added up into its output. */
static void add_windows(const struct conv *v, const double *cols, double *out) {
    const struct ak_window *w = &v->w;
    int64_t taps = ak_product(w->dims, w->size), ins = ak_product(w->dims, w->in), t[AK_WINDOW_DIMS], o[AK_WINDOW_DIMS];
    for (int64_t tap = 0; tap < taps; tap++) {
        ak_unravel(w->dims, w->size, tap, t);
        for (int64_t i = 0; i < ins; i++) {
            int64_t at = 0;
            bool inside = true;
            ak_unravel(w->dims, w->in, i, o);
            for (int d = 0; d < w->dims; d++) {
                int64_t p = o[d] * w->stride[d] - w->pad[d] + t[d] * w->dilation[d];
                inside &= p >= 0 && p < w->out[d];
                at = at * w->out[d] + p;
            }
            if (inside) out[at] += cols[tap * ins + i];
        }
    }
}

static void transposed_group(struct ak_opcall *c, const struct conv *v, const double *weight, int64_t image, int64_t group) {
    const struct ak_tensor *x = ak_arg(c, 0), *b = ak_arg(c, 2), *o = &c->out[0];
    int64_t taps = ak_product(v->w.dims, v->w.size), ins = ak_product(v->w.dims, v->w.in), outs = ak_product(v->w.dims, v->w.out);
    int64_t step = BLOCK / (taps * ins + 1) + 1;
    struct ak_tensor part = *x;
    part.ndim = v->w.dims + 1;
    for (int d = 0; d < part.ndim; d++) {
        part.shape[d] = d ? v->w.in[d - 1] : v->cin;
        part.stride[d] = x->stride[d + v->batched];
    }
    part.offset = image_at(v, x, image, group * v->cin);
    double *in = ak_reals(&part), *cols = ak_malloc((size_t)(step * taps * ins + 1) * sizeof *cols);
    for (int64_t from = 0; from < v->cout; from += step) {
        int64_t n = v->cout - from < step ? v->cout - from : step;
        struct ak_gemm g = {.m = n * taps, .n = ins, .k = v->cin, .alpha = 1};
        g.a = (struct ak_mat){.dtype = AK_F64, .data = (void *)weight, .at = group * v->cin * v->cout * taps + from * taps, .row = 1, .col = v->cout * taps};
        g.b = (struct ak_mat){.dtype = AK_F64, .data = in, .row = ins, .col = 1};
        g.out = (struct ak_mat){.dtype = AK_F64, .data = cols, .row = ins, .col = 1};
        ak_gemm(&g);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            double *sum = ak_malloc((size_t)(outs + 1) * sizeof *sum);
            int64_t channel = group * v->cout + from + i;
            double bias = b ? ak_get(b, channel) : 0;
            memset(sum, 0, (size_t)outs * sizeof *sum);
            add_windows(v, cols + i * taps * ins, sum);
            for (int64_t k = 0; k < outs; k++)
                sum[k] += bias;
            ak_store_run(o->dtype, o->data, image_at(v, o, image, channel), 1, outs, sum);
            free(sum);
        }
    }
    free(in);
    free(cols);
}

static int run(struct ak_opcall *c, struct form f, struct ak_err *err) {
    struct conv v;
    if (conv_of(c, f, &v, err)) return -1;
    int64_t k = v.cin * ak_product(v.w.dims, v.w.size), outs = ak_product(v.w.dims, v.w.out), step = BLOCK / (k ? k : 1) + 1;
    if (outs < step) step = outs;
    double *weight = ak_reals(ak_arg(c, 1)), *cols = v.transposed ? NULL : ak_malloc((size_t)(k * step + 1) * sizeof *cols);
    for (int64_t image = 0; image < v.images; image++)
        for (int64_t group = 0; group < v.groups; group++) {
            if (v.transposed)
                transposed_group(c, &v, weight, image, group);
            else
                forward_group(c, &v, weight, image, group, cols);
        }
    free(weight);
    free(cols);
    return 0;
}

/* 2 a multiply-add: each output element meets cin * taps of them; transposed, each input element cout * taps. */
static double count(const struct ak_opcall *c, struct form f) {
    struct conv v;
    struct ak_err err;
    if (conv_of(c, f, &v, &err)) return 0;
    double taps = (double)ak_product(v.w.dims, v.w.size);
    return v.transposed ? 2 * (double)ak_numel(ak_arg(c, 0)) * (double)v.cout * taps : 2 * (double)ak_numel(&c->out[0]) * (double)v.cin * taps;
}

#define FORM(name, ...)                                                                                                \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) { return infer(c, (struct form){__VA_ARGS__}, err); } \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) { return run(c, (struct form){__VA_ARGS__}, err); } \
    static double flops_##name(const struct ak_opcall *c) { return count(c, (struct form){__VA_ARGS__}); }
FORM(any, .flag = 6, .stride = 3, .padding = 4, .dilation = 5, .extra = 7, .groups = 8)
FORM(1d, .dims = 1, .stride = 3, .padding = 4, .dilation = 5, .groups = 6)
FORM(2d, .dims = 2, .stride = 3, .padding = 4, .dilation = 5, .groups = 6)
FORM(3d, .dims = 3, .stride = 3, .padding = 4, .dilation = 5, .groups = 6)
FORM(t1d, .dims = 1, .transposed = true, .stride = 3, .padding = 4, .extra = 5, .groups = 6, .dilation = 7)
FORM(t2d, .dims = 2, .transposed = true, .stride = 3, .padding = 4, .extra = 5, .groups = 6, .dilation = 7)
FORM(t3d, .dims = 3, .transposed = true, .stride = 3, .padding = 4, .extra = 5, .groups = 6, .dilation = 7)

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name, .flops = flops_##name}
#define CONV(n) ROW("conv" #n "d.default(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" #n "] stride=1, SymInt[" #n "] padding=0, SymInt[" #n "] dilation=1, SymInt groups=1) -> Tensor", n##d)
#define NAMED(n) ROW("conv" #n "d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" #n "] stride=1, str padding=\"valid\", SymInt[" #n "] dilation=1, SymInt groups=1) -> Tensor", n##d)
#define TRANSPOSED(name, n) ROW(name "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" #n "] stride=1, SymInt[" #n "] padding=0, SymInt[" #n "] output_padding=0, SymInt groups=1, SymInt[" #n "] dilation=1) -> Tensor", t##n##d)

static const struct ak_op rows[] = {
    CONV(1),
    CONV(2),
    CONV(3),
    NAMED(1),
    NAMED(2),
    NAMED(3),
    TRANSPOSED("conv_transpose1d.default", 1),
    TRANSPOSED("conv_transpose2d.input", 2),
    TRANSPOSED("conv_transpose3d.input", 3),
    ROW("convolution.default(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
        "SymInt[] output_padding, SymInt groups) -> Tensor",
        any),
};
AK_ROWS(ak_ops_conv, rows);
