/* ak: types aten.conv2d.default aten.conv1d.default */
/* Convolution: for a block of output positions the windows are laid out as columns that stay in
 * cache, and sgemm does the rest; a 1x1 window needs no columns; one input channel a group is
 * summed directly. What is not f32 with contiguous planes is first copied to floats. */
#include <cblas.h>
#include <limits.h>
#include <omp.h>

#include "ak_kernel.h"

enum { X, WEIGHT, BIAS, OUT };
enum { COLUMN_FLOATS = 1 << 18, PARALLEL_FROM = 32768 };

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

/* [N, C, H, W]; a conv1d has H = 1. `lies`: f32 with row-major planes, to be used where it is. */
struct image {
    const char *p;
    enum kind kind;
    int lies;
    int64_t n, c, h, w, step[4];
};

static int image_of(const DLTensor *t, struct image *m) {
    int one = t->ndim == 3;
    if ((t->ndim != 3 && t->ndim != 4) || kind_of(t) == OTHER) return 0;
    *m = (struct image){.p = (const char *)t->data + t->byte_offset, .kind = kind_of(t), .n = t->shape[0], .c = t->shape[1], .h = one ? 1 : t->shape[2],
                        .w = t->shape[t->ndim - 1], .step = {t->strides[0], t->strides[1], one ? 0 : t->strides[2], t->strides[t->ndim - 1]}};
    m->lies = m->kind == F32 && (m->w <= 1 || m->step[3] == 1) && (m->h <= 1 || m->step[2] == m->w) && (m->c <= 1 || m->step[1] >= m->h * m->w);
    return 1;
}

static int64_t numel(const struct image *m) { return m->n * m->c * m->h * m->w; }

/* The i-th of two numbers of an attribute; conv1d gives the second only. */
static int64_t pair(const struct ak_call *call, const char *name, int i, int64_t otherwise) {
    const struct ak_attr *a = ak_attr_find(call, name);
    int one = strcmp(call->type, "aten.conv1d.default") == 0;
    if (one && i == 0) return otherwise;
    return !a || a->n < 1 ? otherwise : a->v.ints[a->n == 1 ? 0 : i];
}

struct conv {
    struct image x, w, o; /* w: [O, C / groups, KH, KW] */
    int64_t stride[2], pad[2], dilation[2], groups, depth, cols, blocks;
    int threads, direct, pointwise;
    size_t x_floats, w_floats, o_floats, col_floats; /* scratch; col for each thread */
};

static int plan(const struct ak_call *call, struct conv *v) {
    const DLTensor *x = ak_tensor_arg(call, X), *w = ak_tensor_arg(call, WEIGHT), *o = ak_tensor_arg(call, OUT), *b = ak_tensor_arg(call, BIAS);
    *v = (struct conv){.groups = ak_attr_int(call, "groups", 1), .threads = omp_get_max_threads()};
    int ndim = strcmp(call->type, "aten.conv1d.default") == 0 ? 3 : 4; /* no batch, no call */
    if (!x || !w || !o || x->ndim != ndim || w->ndim != ndim || o->ndim != ndim || !image_of(x, &v->x) || !image_of(w, &v->w) || !image_of(o, &v->o)) return 0;
    if ((b && (b->ndim != 1 || kind_of(b) == OTHER)) || v->groups < 1 || v->w.n % v->groups) return 0;
    static const int64_t usual[2] = {1, 1};
    for (int i = 0; i < 2; i++) {
        v->stride[i] = pair(call, "stride", i, usual[i]);
        v->pad[i] = pair(call, "padding", i, 0);
        v->dilation[i] = pair(call, "dilation", i, 1);
        if (v->stride[i] < 1 || v->dilation[i] < 1 || v->pad[i] < 0) return 0;
    }
    int64_t places = v->o.h * v->o.w;
    v->depth = v->w.c * v->w.h * v->w.w;
    if (v->depth > INT_MAX || places > INT_MAX || v->w.n > INT_MAX || v->x.h * v->x.w > INT_MAX) return 0;
    v->pointwise = v->w.h * v->w.w == 1 && v->stride[0] * v->stride[1] == 1 && v->pad[0] + v->pad[1] == 0;
    v->direct = v->w.c == 1 && !v->pointwise;
    int64_t most = v->pointwise ? places : COLUMN_FLOATS / (v->depth ? v->depth : 1), least = v->x.n * v->groups < v->threads ? v->threads : 1;
    most = most < 64 ? 64 : most;
    v->blocks = (places + most - 1) / most;
    if (v->blocks < least) v->blocks = least;
    v->cols = (places + v->blocks - 1) / v->blocks;
    if (v->cols) v->blocks = (places + v->cols - 1) / v->cols;
    v->x_floats = v->x.lies ? 0 : (size_t)numel(&v->x);
    v->w_floats = v->w.lies && v->w.step[1] == v->w.h * v->w.w && v->w.step[0] == v->depth ? 0 : (size_t)numel(&v->w);
    v->o_floats = v->o.lies ? 0 : (size_t)numel(&v->o);
    v->col_floats = v->pointwise || v->direct ? 0 : (size_t)(v->depth * v->cols);
    return 1;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct conv v;
    if (!plan(call, &v)) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){(v.x_floats + v.w_floats + v.o_floats + (size_t)v.threads * v.col_floats) * sizeof(float), 0};
    return AK_OK;
}

/* A row-major copy in floats, which m then describes. */
static void copy_in(struct image *m, float *to) {
    int64_t rows = m->n * m->c * m->h;
#pragma omp parallel for if (rows * m->w > PARALLEL_FROM)
    for (int64_t r = 0; r < rows; r++) {
        int64_t h = r % m->h, c = r / m->h % m->c, n = r / m->h / m->c;
        const char *from = at(m->p, m->kind, n * m->step[0] + c * m->step[1] + h * m->step[2]);
        if (m->step[3] == 1)
            widen(to + r * m->w, from, m->kind, m->w);
        else
            for (int64_t i = 0; i < m->w; i++)
                widen(to + r * m->w + i, at(from, m->kind, i * m->step[3]), m->kind, 1);
    }
    m->p = (const char *)to;
    m->kind = F32;
    m->step[0] = m->c * m->h * m->w, m->step[1] = m->h * m->w, m->step[2] = m->w, m->step[3] = 1;
}

static void copy_out(const struct image *m, const float *from) {
    int64_t rows = m->n * m->c * m->h;
#pragma omp parallel for if (rows * m->w > PARALLEL_FROM)
    for (int64_t r = 0; r < rows; r++) {
        int64_t h = r % m->h, c = r / m->h % m->c, n = r / m->h / m->c;
        char *to = (char *)at(m->p, m->kind, n * m->step[0] + c * m->step[1] + h * m->step[2]);
        if (m->kind != F32 && m->step[3] == 1)
            narrow(to, from + r * m->w, m->kind, m->w);
        else
            for (int64_t i = 0; i < m->w; i++)
                if (m->kind == F32)
                    ((float *)to)[i * m->step[3]] = from[r * m->w + i];
                else
                    narrow((char *)at(to, m->kind, i * m->step[3]), from + r * m->w + i, m->kind, 1);
    }
}

static float bias_of(const struct ak_call *call, int64_t i) {
    const DLTensor *b = ak_tensor_arg(call, BIAS);
    float v = 0;
    if (b) widen(&v, at(ak_data(call, BIAS), kind_of(b), i * b->strides[0]), kind_of(b), 1);
    return v;
}

/* The output columns whose input column, under kernel column kw, is inside: [*lo, *hi). */
static void inside(const struct conv *v, int64_t kw, int64_t *lo, int64_t *hi) {
    int64_t first = v->pad[1] - kw * v->dilation[1], end = v->x.w + first, s = v->stride[1];
    *lo = first > 0 ? (first + s - 1) / s : 0;
    *hi = end > 0 ? (end + s - 1) / s : 0;
    if (*hi > v->o.w) *hi = v->o.w;
    if (*lo > *hi) *lo = *hi;
}

static float *plane(const struct image *m, int64_t n, int64_t c) { return (float *)at(m->p, F32, n * m->step[0] + c * m->step[1]); }

/* Output positions from..to of one row of the columns: kernel element (kh, kw) of plane x. */
static void column_row(const struct conv *v, const float *x, int64_t kh, int64_t kw, int64_t from, int64_t to, float *col) {
    int64_t lo, hi, s = v->stride[1], shift = kw * v->dilation[1] - v->pad[1];
    inside(v, kw, &lo, &hi);
    while (from < to) {
        int64_t oh = from / v->o.w, ow = from % v->o.w, end = ow + to - from < v->o.w ? ow + to - from : v->o.w;
        int64_t ih = oh * v->stride[0] - v->pad[0] + kh * v->dilation[0], a = lo > ow ? lo : ow, b = hi < end ? hi : end;
        if (ih < 0 || ih >= v->x.h || a > b) a = b = end;
        const float *row = x + ih * v->x.w + shift;
        memset(col, 0, (size_t)(a - ow) * sizeof *col);
        if (s == 1)
            memcpy(col + a - ow, row + a, (size_t)(b - a) * sizeof *col);
        else
            for (int64_t i = a; i < b; i++)
                col[i - ow] = row[i * s];
        memset(col + b - ow, 0, (size_t)(end - b) * sizeof *col);
        col += end - ow;
        from += end - ow;
    }
}

static void gemm_block(const struct ak_call *call, const struct conv *v, int64_t n, int64_t g, int64_t from, int64_t to, float *col) {
    int64_t outs = v->w.n / v->groups, len = to - from, ldo = v->o.c > 1 ? v->o.step[1] : v->o.h * v->o.w, ld = len;
    const float *b = col, *w = (const float *)v->w.p + g * outs * v->depth;
    float *o = plane(&v->o, n, g * outs) + from;
    if (v->pointwise) {
        b = plane(&v->x, n, g * v->w.c) + from;
        ld = v->x.c > 1 ? v->x.step[1] : v->x.h * v->x.w;
    } else {
        for (int64_t c = 0; c < v->w.c; c++)
            for (int64_t k = 0; k < v->w.h * v->w.w; k++)
                column_row(v, plane(&v->x, n, g * v->w.c + c), k / v->w.w, k % v->w.w, from, to, col + (c * v->w.h * v->w.w + k) * len);
    }
    for (int64_t r = 0; r < outs; r++) {
        float bias = bias_of(call, g * outs + r);
        for (int64_t i = 0; i < len; i++)
            o[r * ldo + i] = bias;
    }
    if (outs && v->depth)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)outs, (int)len, (int)v->depth, 1, w, (int)v->depth, b, (int)ld, 1, o, (int)ldo);
}

/* One output plane from one input plane. */
static void direct(const struct ak_call *call, const struct conv *v, int64_t n, int64_t c) {
    const float *x = plane(&v->x, n, c / (v->w.n / v->groups)), *w = (const float *)v->w.p + c * v->depth;
    float *o = plane(&v->o, n, c), bias = bias_of(call, c);
    int64_t s = v->stride[1];
    for (int64_t oh = 0; oh < v->o.h; oh++, o += v->o.w) {
        for (int64_t i = 0; i < v->o.w; i++)
            o[i] = bias;
        for (int64_t k = 0; k < v->depth; k++) {
            int64_t ih = oh * v->stride[0] - v->pad[0] + k / v->w.w * v->dilation[0], kw = k % v->w.w, lo, hi;
            if (ih < 0 || ih >= v->x.h) continue;
            inside(v, kw, &lo, &hi);
            const float *row = x + ih * v->x.w + kw * v->dilation[1] - v->pad[1];
            if (s == 1)
                for (int64_t i = lo; i < hi; i++)
                    o[i] += w[k] * row[i];
            else
                for (int64_t i = lo; i < hi; i++)
                    o[i] += w[k] * row[i * s];
        }
    }
}

int ak_launch(const struct ak_call *call) {
    struct conv v;
    plan(call, &v);
    const struct image out = v.o;
    if (numel(&out) == 0) return AK_OK;
    float *x = call->scratch, *w = x + v.x_floats, *o = w + v.w_floats, *col = o + v.o_floats;
    if (v.x_floats) copy_in(&v.x, x);
    if (v.w_floats) copy_in(&v.w, w);
    if (v.o_floats) {
        v.o.p = (const char *)o;
        v.o.step[0] = v.o.c * v.o.h * v.o.w, v.o.step[1] = v.o.h * v.o.w;
    }
    int64_t planes = v.o.n * v.o.c, tasks = v.o.n * v.groups * v.blocks, places = v.o.h * v.o.w;
    if (v.direct) {
#pragma omp parallel for if (planes * places * v.depth > PARALLEL_FROM)
        for (int64_t t = 0; t < planes; t++)
            direct(call, &v, t / v.o.c, t % v.o.c);
    } else {
#pragma omp parallel for schedule(dynamic) if (tasks > 1 && planes * places * v.depth > PARALLEL_FROM)
        for (int64_t t = 0; t < tasks; t++) {
            int64_t from = t % v.blocks * v.cols, to = from + v.cols < places ? from + v.cols : places;
            gemm_block(call, &v, t / v.blocks / v.groups, t / v.blocks % v.groups, from, to, col + (size_t)omp_get_thread_num() * v.col_floats);
        }
    }
    if (v.o_floats) copy_out(&out, o);
    return AK_OK;
}
