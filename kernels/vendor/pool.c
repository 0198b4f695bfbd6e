/* ak: types aten.max_pool2d.default aten.avg_pool2d.default aten.adaptive_avg_pool2d.default */
/* Pools: a row of outputs at a time, one pass over it for each element of the window. Planes that
 * are not f32 with contiguous rows are first copied to floats. */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { PARALLEL_FROM = 16384 };

enum kind { F32, F16, BF16, OTHER };

static enum kind kind_of(const DLTensor *t) {
    return ak_is_dtype(t, kDLFloat, 32) ? F32 : ak_is_dtype(t, kDLFloat, 16) ? F16 : ak_is_dtype(t, kDLBfloat, 16) ? BF16 : OTHER;
}

static const char *at(const void *p, enum kind kind, int64_t i) { return (const char *)p + i * (kind == F32 ? 4 : 2); }

/* gcc 12 makes no vectors of conversions from and to _Float16. */
#if defined __F16C__ && defined __GNUC__ && !defined __clang__
typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias));
#define WIDEN8(h) __builtin_ia32_vcvtph2ps256(h)
#define NARROW8(f) __builtin_ia32_vcvtps2ph256(f, 4)
#endif

static void widen(float *to, const char *from, enum kind kind, int64_t n) {
    int64_t i = 0;
    if (kind == F32) memcpy(to, from, (size_t)n * sizeof *to);
    if (kind == BF16)
        for (; i < n; i++)
            ((uint32_t *)to)[i] = (uint32_t)((const uint16_t *)from)[i] << 16;
    if (kind != F16) return;
#ifdef WIDEN8
    for (; i + 8 <= n; i += 8)
        *(f8 *)(to + i) = WIDEN8(*(const h8 *)(from + 2 * i));
#endif
    for (; i < n; i++)
        to[i] = ((const _Float16 *)from)[i];
}

static void narrow(char *to, const float *from, enum kind kind, int64_t n) {
    int64_t i = 0;
    if (kind == BF16)
        for (; i < n; i++) {
            uint32_t u = ((const uint32_t *)from)[i];
            ((uint16_t *)to)[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
        }
    if (kind != F16) return;
#ifdef NARROW8
    for (; i + 8 <= n; i += 8)
        *(h8 *)(to + 2 * i) = NARROW8(*(const f8 *)(from + i));
#endif
    for (; i < n; i++)
        ((_Float16 *)to)[i] = (_Float16)from[i];
}

/* [N, C, H, W] or [C, H, W]. */
struct image {
    char *p;
    enum kind kind;
    int64_t planes, c, h, w, step[4];
};

static int image_of(const DLTensor *t, struct image *m) {
    if (!t || (t->ndim != 3 && t->ndim != 4) || kind_of(t) == OTHER) return 0;
    const int64_t *s = t->shape + t->ndim - 3, *d = t->strides + t->ndim - 3;
    int64_t n = t->ndim == 4 ? t->shape[0] : 1;
    *m = (struct image){(char *)t->data + t->byte_offset, kind_of(t), n * s[0], s[0], s[1], s[2], {t->ndim == 4 ? t->strides[0] : 0, d[0], d[1], d[2]}};
    return 1;
}

static int in_place(const struct image *x) { return x->kind == F32 && (x->step[3] == 1 || x->w <= 1); }

/* The i-th of two numbers of an attribute. */
static int64_t pair(const struct ak_call *call, const char *name, int i, int64_t otherwise) {
    const struct ak_attr *a = ak_attr_find(call, name);
    return !a || a->n < 1 ? otherwise : a->v.ints[a->n == 1 ? 0 : i];
}

static int64_t row_of(const struct image *m, int64_t plane, int64_t h) { return plane / m->c * m->step[0] + plane % m->c * m->step[1] + h * m->step[2]; }

/* Scratch for each thread: a row of outputs, and a plane of inputs that must be copied. */
static size_t thread_floats(const struct image *x, const struct image *o) { return (size_t)o->w + (in_place(x) ? 0 : (size_t)(x->h * x->w)); }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct image x, o;
    if (call->nargs != 2 || !image_of(ak_tensor_arg(call, 0), &x) || !image_of(ak_tensor_arg(call, 1), &o) || x.planes != o.planes) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){(size_t)omp_get_max_threads() * thread_floats(&x, &o) * sizeof(float), 0};
    return AK_OK;
}

struct window {
    int64_t size[2], stride[2], pad[2], dilation[2], divisor;
    int max, adaptive, count_padding;
};

static struct window window_of(const struct ak_call *call) {
    struct window w = {.max = strcmp(call->type, "aten.max_pool2d.default") == 0,
                       .adaptive = strcmp(call->type, "aten.adaptive_avg_pool2d.default") == 0,
                       .count_padding = (int)ak_attr_int(call, "count_include_pad", 1),
                       .divisor = ak_attr_int(call, "divisor_override", 0)};
    for (int i = 0; i < 2; i++) {
        w.size[i] = pair(call, "kernel_size", i, 1);
        w.stride[i] = pair(call, "stride", i, w.size[i]);
        w.pad[i] = pair(call, "padding", i, 0);
        w.dilation[i] = pair(call, "dilation", i, 1);
    }
    return w;
}

/* A plane with contiguous rows: where it lies, or in buf. */
static const float *plane(const struct image *x, int64_t p, float *buf, int64_t *ld) {
    *ld = in_place(x) ? x->step[2] : x->w;
    if (in_place(x)) return (const float *)at(x->p, F32, row_of(x, p, 0));
    for (int64_t h = 0; h < x->h; h++) {
        const char *from = at(x->p, x->kind, row_of(x, p, h));
        if (x->step[3] == 1)
            widen(buf + h * x->w, from, x->kind, x->w);
        else
            for (int64_t i = 0; i < x->w; i++)
                widen(buf + h * x->w + i, at(from, x->kind, i * x->step[3]), x->kind, 1);
    }
    return buf;
}

static void store(const struct image *o, int64_t p, int64_t h, const float *row) {
    char *to = (char *)at(o->p, o->kind, row_of(o, p, h));
    if (o->kind == F32)
        for (int64_t i = 0; i < o->w; i++)
            ((float *)to)[i * o->step[3]] = row[i];
    else if (o->step[3] == 1)
        narrow(to, row, o->kind, o->w);
    else
        for (int64_t i = 0; i < o->w; i++)
            narrow((char *)at(to, o->kind, i * o->step[3]), row + i, o->kind, 1);
}

static void take_max(float *restrict o, const float *restrict x, int64_t lo, int64_t hi, int64_t s) {
    if (s == 1)
        for (int64_t i = lo; i < hi; i++)
            o[i] = x[i] > o[i] || x[i] != x[i] ? x[i] : o[i];
    else
        for (int64_t i = lo; i < hi; i++)
            o[i] = x[i * s] > o[i] || x[i * s] != x[i * s] ? x[i * s] : o[i];
}

static void take_sum(float *restrict o, const float *restrict x, int64_t lo, int64_t hi, int64_t s) {
    if (s == 1)
        for (int64_t i = lo; i < hi; i++)
            o[i] += x[i];
    else
        for (int64_t i = lo; i < hi; i++)
            o[i] += x[i * s];
}

/* How many elements a window that begins at `from` divides by along one dim. */
static int64_t counted(int64_t from, int64_t size, int64_t length, int64_t pad, int with_padding) {
    int64_t end = from + size < length + pad ? from + size : length + pad;
    if (with_padding) return end - from;
    return (end < length ? end : length) - (from > 0 ? from : 0);
}

static void divide(const struct window *w, const struct image *x, const struct image *o, int64_t oh, float *row) {
    int64_t down = counted(oh * w->stride[0] - w->pad[0], w->size[0], x->h, w->pad[0], w->count_padding);
    for (int64_t i = 0; i < o->w; i++) {
        int64_t n = w->divisor ? w->divisor : down * counted(i * w->stride[1] - w->pad[1], w->size[1], x->w, w->pad[1], w->count_padding);
        row[i] = n > 0 || w->divisor ? row[i] / (float)n : 0;
    }
}

static void pool_row(const struct window *w, const struct image *x, const struct image *o, const float *p, int64_t ld, int64_t oh, float *row) {
    for (int64_t i = 0; i < o->w; i++)
        row[i] = w->max ? -INFINITY : 0;
    for (int64_t k = 0; k < w->size[0] * w->size[1]; k++) {
        int64_t ih = oh * w->stride[0] - w->pad[0] + k / w->size[1] * w->dilation[0], shift = k % w->size[1] * w->dilation[1] - w->pad[1];
        int64_t s = w->stride[1], lo = shift < 0 ? (-shift + s - 1) / s : 0, hi = x->w - shift > 0 ? (x->w - shift + s - 1) / s : 0;
        if (hi > o->w) hi = o->w;
        if (ih < 0 || ih >= x->h) continue;
        if (w->max)
            take_max(row, p + ih * ld + shift, lo, hi, s);
        else
            take_sum(row, p + ih * ld + shift, lo, hi, s);
    }
    if (!w->max) divide(w, x, o, oh, row);
}

static void adaptive_row(const struct image *x, const struct image *o, const float *p, int64_t ld, int64_t oh, float *row) {
    int64_t h0 = oh * x->h / o->h, h1 = ((oh + 1) * x->h + o->h - 1) / o->h;
    for (int64_t i = 0; i < o->w; i++) {
        int64_t w0 = i * x->w / o->w, w1 = ((i + 1) * x->w + o->w - 1) / o->w;
        float sum = 0;
        for (int64_t h = h0; h < h1; h++) {
            const float *from = p + h * ld;
#pragma omp simd reduction(+ : sum)
            for (int64_t k = w0; k < w1; k++)
                sum += from[k];
        }
        row[i] = sum / (float)((h1 - h0) * (w1 - w0));
    }
}

int ak_launch(const struct ak_call *call) {
    struct image x, o;
    image_of(ak_tensor_arg(call, 0), &x);
    image_of(ak_tensor_arg(call, 1), &o);
    const struct window w = window_of(call);
    int64_t work = w.adaptive ? x.planes * x.h * x.w : o.planes * o.h * o.w * w.size[0] * w.size[1];
    size_t each = thread_floats(&x, &o);
#pragma omp parallel for if (work > PARALLEL_FROM)
    for (int64_t i = 0; i < o.planes; i++) {
        float *row = (float *)call->scratch + (size_t)omp_get_thread_num() * each;
        int64_t ld;
        const float *p = plane(&x, i, row + o.w, &ld);
        for (int64_t oh = 0; oh < o.h; oh++) {
            if (w.adaptive)
                adaptive_row(&x, &o, p, ld, oh, row);
            else
                pool_row(&w, &x, &o, p, ld, oh, row);
            store(&o, i, oh, row);
        }
    }
    return AK_OK;
}
