/* Upsampling of [N, C, H, W], and pixel_shuffle. */
#include <math.h>
#include <string.h>

#include "walk.h"

/* The output size: given, or the input's times the factor rounded down. A factor given also sets the scale. */
struct grid {
    int64_t in[2], out[2];
    double scale[2]; /* input elements an output element */
};

static int grid_of(const struct ak_opcall *c, size_t factors, bool corners, struct grid *g, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || t->ndim != 4 || !ak_dtype_is_float(t->dtype)) return ak_bad(err, "real numbers [N, C, H, W] are wanted");
    bool sized = c->in[1].kind == AK_VAL_INTS, scaled = c->in[factors].kind == AK_VAL_FLOATS && c->in[factors].floats.n == 2;
    if (sized == scaled || (sized && c->in[1].ints.n != 2)) return ak_bad(err, "an output size or two factors are wanted");
    for (int i = 0; i < 2; i++) {
        double f = scaled ? c->in[factors].floats.v[i] : 0;
        g->in[i] = t->shape[2 + i];
        double out = scaled ? floor((double)g->in[i] * f) : (double)c->in[1].ints.v[i];
        if (!(out >= 1 && out < 1e9) || g->in[i] < 1) return ak_bad(err, "a size is out of range");
        g->out[i] = (int64_t)out;
        if (corners)
            g->scale[i] = g->out[i] > 1 ? (double)(g->in[i] - 1) / (double)(g->out[i] - 1) : 0;
        else
            g->scale[i] = scaled ? 1 / f : (double)g->in[i] / (double)g->out[i];
    }
    return 0;
}

static int infer(struct ak_opcall *c, size_t factors, struct ak_err *err) {
    struct grid g;
    if (grid_of(c, factors, false, &g, err)) return -1;
    const struct ak_tensor *t = ak_arg(c, 0);
    return ak_out(c, t->dtype, 4, (int64_t[]){t->shape[0], t->shape[1], g.out[0], g.out[1]});
}

static double at(const struct ak_tensor *t, int64_t plane, int64_t y, int64_t x) {
    return ak_load(t->dtype, t->data,
                   t->offset + plane / t->shape[1] * t->stride[0] + plane % t->shape[1] * t->stride[1] + y * t->stride[2] + x * t->stride[3]);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static double nearest(const struct ak_tensor *t, const struct grid *g, int64_t plane, int64_t y, int64_t x, bool corners) {
    (void)corners;
    /* single precision, as PyTorch computes the place: another one would be another element */
    int64_t sy = (int64_t)floorf((float)y * (float)g->scale[0]), sx = (int64_t)floorf((float)x * (float)g->scale[1]);
    return at(t, plane, least(sy, g->in[0] - 1), least(sx, g->in[1] - 1));
}

static double place(double scale, int64_t i, bool corners) { return corners ? scale * (double)i : fmax(0, scale * ((double)i + 0.5) - 0.5); }

static double bilinear(const struct ak_tensor *t, const struct grid *g, int64_t plane, int64_t y, int64_t x, bool corners) {
    double py = place(g->scale[0], y, corners), px = place(g->scale[1], x, corners);
    int64_t y0 = least((int64_t)py, g->in[0] - 1), x0 = least((int64_t)px, g->in[1] - 1), y1 = least(y0 + 1, g->in[0] - 1), x1 = least(x0 + 1, g->in[1] - 1);
    double fy = fmin(fmax(py - (double)y0, 0), 1), fx = fmin(fmax(px - (double)x0, 0), 1);
    return (1 - fy) * ((1 - fx) * at(t, plane, y0, x0) + fx * at(t, plane, y0, x1)) + fy * ((1 - fx) * at(t, plane, y1, x0) + fx * at(t, plane, y1, x1));
}

static int run(struct ak_opcall *c, size_t factors, bool corners,
               double (*f)(const struct ak_tensor *, const struct grid *, int64_t, int64_t, int64_t, bool), struct ak_err *err) {
    struct grid g;
    if (grid_of(c, factors, corners, &g, err)) return -1;
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    int64_t planes = t->shape[0] * t->shape[1], size = g.out[0] * g.out[1];
#pragma omp parallel for schedule(static) if (planes * size > 1 << 12)
    for (int64_t k = 0; k < planes * size; k++)
        ak_store(o->dtype, o->data, o->offset + k, f(t, &g, k / size, k % size / g.out[1], k % g.out[1], corners));
    return 0;
}

static int infer_nearest(struct ak_opcall *c, struct ak_err *err) { return infer(c, 2, err); }
static int run_nearest(struct ak_opcall *c, struct ak_err *err) { return run(c, 2, false, nearest, err); }
static int infer_bilinear(struct ak_opcall *c, struct ak_err *err) { return infer(c, 3, err); }
static int run_bilinear(struct ak_opcall *c, struct ak_err *err) { return run(c, 3, ak_flag(c, 2), bilinear, err); }

/* pixel_shuffle(self, r): [*, C r r, H, W] -> [*, C, H r, W r] */
static int infer_shuffle(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t r = ak_int(c, 1);
    if (!t || t->ndim < 3 || r < 1 || r > 1 << 15 || t->shape[t->ndim - 3] % (r * r)) return ak_bad(err, "the channels do not divide");
    struct ak_tensor o = *t;
    o.shape[o.ndim - 3] /= r * r;
    o.shape[o.ndim - 2] *= r;
    o.shape[o.ndim - 1] *= r;
    return ak_out(c, o.dtype, o.ndim, o.shape);
}
static int run_shuffle(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *t = ak_arg(c, 0);
    int64_t r = ak_int(c, 1), h = t->shape[t->ndim - 2], w = t->shape[t->ndim - 1], channels = t->shape[t->ndim - 3];
    struct ak_tensor lead = *t;
    lead.ndim = t->ndim - 3;
    int64_t n = ak_numel(&lead);
    for (int64_t i = 0; i < n; i++) { /* [C, r, r, H, W] seen as [C, H, r, W, r] */
        int64_t sc = t->stride[t->ndim - 3], sh = t->stride[t->ndim - 2], sw = t->stride[t->ndim - 1];
        struct ak_tensor from = {.dtype = t->dtype, .ndim = 5, .data = t->data, .offset = ak_index(&lead, i)}, to;
        memcpy(from.shape, (int64_t[]){channels / (r * r), h, r, w, r}, 5 * sizeof(int64_t));
        memcpy(from.stride, (int64_t[]){sc * r * r, sh, sc * r, sw, sc}, 5 * sizeof(int64_t));
        to = ak_tensor_new(t->dtype, 5, from.shape);
        to.data = c->out[0].data;
        to.offset = c->out[0].offset + i * ak_numel(&to);
        ak_copy(&to, &from);
    }
    return 0;
}

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name}

static const struct ak_op rows[] = {
    ROW("upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", nearest),
    ROW("upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", bilinear),
    ROW("pixel_shuffle.default(Tensor self, int upscale_factor) -> Tensor", shuffle),
};
AK_ROWS(ak_ops_resize, rows);
