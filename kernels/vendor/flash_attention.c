/* ak: types flash_attention */
/* The opponent of attention: for a block of queries of one head sgemm, an honest softmax, sgemm.
 * Heads and blocks are shared among threads; inside, OpenBLAS takes one thread. f16 and bf16 keys
 * and values are widened once, queries a block at a time. */
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { Q, K, V, MASK, OUT };

/* What glibc says of libmvec to -ffast-math alone: these have vector forms, NaN and infinities included. */
#if defined __x86_64__ && defined __GLIBC__ && __GLIBC_PREREQ(2, 35)
#pragma omp declare simd notinbranch
float expf(float);
#endif
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

/* Rows of four dims with a leading dimension. */
static int usable(const DLTensor *t, enum kind kind) {
    if (kind_of(t) != kind || t->ndim != 4 || (t->strides[3] != 1 && t->shape[3] > 1)) return 0;
    return t->shape[2] <= 1 || (t->strides[2] >= t->shape[3] && t->strides[2] <= INT_MAX && t->shape[2] <= INT_MAX);
}

/* Queries in a block: their scores stay in half of a level 2 cache. */
static int64_t block_rows(int64_t keys) { return keys <= 2048 ? 64 : keys <= 4096 ? 32 : 16; }

struct shape {
    int64_t batch, heads, share, queries, keys, dim, dv, rows;
    size_t thread_floats; /* scores, then, of halves, a block of q and of out */
    size_t kv_floats;
};
static struct shape shape_of(const struct ak_call *call) {
    const DLTensor *q = ak_tensor_arg(call, Q), *k = ak_tensor_arg(call, K), *v = ak_tensor_arg(call, V);
    struct shape s = {.batch = q->shape[0], .heads = q->shape[1], .queries = q->shape[2], .dim = q->shape[3], .keys = k->shape[2], .dv = v->shape[3]};
    s.share = k->shape[1] ? s.heads / k->shape[1] : 1;
    s.rows = block_rows(s.keys) < s.queries ? block_rows(s.keys) : s.queries;
    int halves = kind_of(q) != F32;
    s.thread_floats = (size_t)s.rows * (size_t)(s.keys + (halves ? s.dim + s.dv : 0));
    s.kv_floats = halves ? (size_t)(k->shape[0] * k->shape[1] * s.keys) * (size_t)(s.dim + s.dv) : 0;
    return s;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *mask = ak_tensor_arg(call, MASK), *q = ak_tensor_arg(call, Q);
    enum kind kind = kind_of(q);
    if (kind == OTHER) return AK_UNSUPPORTED;
    for (uint32_t i = 0; i <= OUT; i++)
        if (i != MASK && !usable(ak_tensor_arg(call, i), kind)) return AK_UNSUPPORTED;
    if (mask && ((kind_of(mask) != kind && mask->dtype.bits != 8) || mask->ndim != 4)) return AK_UNSUPPORTED;
    struct shape s = shape_of(call);
    *needs = (struct ak_needs){((size_t)omp_get_max_threads() * s.thread_floats + s.kv_floats) * sizeof(float), 0};
    return AK_OK;
}

static char *row(const DLTensor *t, int64_t b, int64_t h, int64_t s) {
    return (char *)at((const char *)t->data + t->byte_offset, kind_of(t), b * t->strides[0] + h * t->strides[1] + s * t->strides[2]);
}
static int64_t ld(const DLTensor *t) { return t->shape[2] > 1 ? t->strides[2] : t->shape[3] > 0 ? t->shape[3] : 1; }

static void add_mask(float *s, const DLTensor *mask, int64_t b, int64_t h, int64_t i, int64_t keys) {
    int64_t step = mask->shape[3] == 1 ? 0 : mask->strides[3];
    int64_t from = (mask->shape[0] == 1 ? 0 : b * mask->strides[0]) + (mask->shape[1] == 1 ? 0 : h * mask->strides[1]) +
                   (mask->shape[2] == 1 ? 0 : i * mask->strides[2]);
    const char *data = (const char *)mask->data + mask->byte_offset;
    enum kind kind = kind_of(mask);
    if (mask->dtype.bits == 8) {
        const uint8_t *keep = (const uint8_t *)data + from;
        if (step == 1)
            for (int64_t j = 0; j < keys; j++)
                s[j] = keep[j] ? s[j] : -INFINITY;
        else
            for (int64_t j = 0; j < keys; j++)
                s[j] = keep[j * step] ? s[j] : -INFINITY;
    } else if (kind == F32 && step == 1) {
        const float *m = (const float *)data + from;
        for (int64_t j = 0; j < keys; j++)
            s[j] += m[j];
    } else {
        for (int64_t j = 0; j < keys; j++) {
            float m = 0;
            widen(&m, at(data, kind, from + j * step), kind, 1);
            s[j] += m;
        }
    }
}

/* Below this e^x is no normal number, and 0 here. libmvec takes such lanes one by one, and a mask makes
 * many of them: so they are clamped, in a loop apart, lest gcc see that a clamped e^x is not used. */
#define LEAST (-87.0f)

static void softmax(float *s, int64_t n, int64_t all) {
    float max = -INFINITY, sum = 0;
    int nan = 0;
#pragma omp simd reduction(max : max) reduction(| : nan)
    for (int64_t j = 0; j < n; j++) {
        max = s[j] > max ? s[j] : max;
        nan |= s[j] != s[j];
    }
    if (max == -INFINITY && !nan) max = 0; /* a fully masked row: every weight is zero */
    for (int64_t j = 0; j < n; j++)
        s[j] = s[j] - max < LEAST ? LEAST : s[j] - max;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        s[j] = s[j] <= LEAST ? 0 : expf(s[j]);
        sum += s[j];
    }
    float scale = sum == 0 ? 0 : 1 / sum;
    for (int64_t j = 0; j < n; j++)
        s[j] *= scale;
    for (int64_t j = n; j < all; j++)
        s[j] = 0;
}

/* x[m,n] y into o: y is [k,n] seen as it lies, or transposed. One row is sgemv's. */
static void multiply(int64_t m, int64_t n, int64_t k, float scale, const float *x, int64_t ldx, const float *y, int64_t ldy, int trans, float *o, int64_t ldo) {
    if (m == 1)
        cblas_sgemv(CblasRowMajor, trans ? CblasNoTrans : CblasTrans, (int)(trans ? n : k), (int)(trans ? k : n), scale, y, (int)ldy, x, 1, 1,
                    memset(o, 0, (size_t)n * sizeof *o), 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, trans ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, scale, x, (int)ldx, y, (int)ldy, 0, o, (int)ldo);
}

struct rows {
    const float *p;
    int64_t ld;
};

/* A head's keys or values: as they lie, or from the widened copy. */
static struct rows head(const DLTensor *t, const float *wide, int64_t b, int64_t h) {
    if (wide) return (struct rows){wide + (b * t->shape[1] + h) * t->shape[2] * t->shape[3], t->shape[3]};
    return (struct rows){(const float *)row(t, b, h, 0), ld(t)};
}

static void widen_heads(const DLTensor *t, float *to) {
    int64_t dim = t->shape[3], rows = t->shape[0] * t->shape[1] * t->shape[2];
#pragma omp parallel for if (rows * dim > 65536)
    for (int64_t r = 0; r < rows; r++)
        widen(to + r * dim, row(t, r / t->shape[2] / t->shape[1], r / t->shape[2] % t->shape[1], r % t->shape[2]), kind_of(t), dim);
}

/* `count` queries of head h from `first` on; scratch holds scores and, of halves, q and out. */
static void block(const struct ak_call *call, const struct shape *s, int64_t b, int64_t h, int64_t first, int64_t count, struct rows k, struct rows v,
                  float *scratch) {
    const DLTensor *q = ak_tensor_arg(call, Q), *mask = ak_tensor_arg(call, MASK), *out = ak_tensor_arg(call, OUT);
    int causal = (int)ak_attr_int(call, "causal", 0);
    float scale = (float)ak_attr_real(call, "scale", s->dim ? 1 / sqrt((double)s->dim) : 1);
    int64_t seen = causal && first + count < s->keys ? first + count : s->keys;
    enum kind kind = kind_of(q);
    struct rows x = {(const float *)row(q, b, h, first), ld(q)}, o = {(const float *)row(out, b, h, first), ld(out)};
    if (kind != F32) {
        float *wide = scratch + s->rows * s->keys;
        for (int64_t i = 0; i < count; i++)
            widen(wide + i * s->dim, row(q, b, h, first + i), kind, s->dim);
        x = (struct rows){wide, s->dim};
        o = (struct rows){wide + s->rows * s->dim, s->dv};
    }
    float *to = (float *)o.p;
    if (seen > 0 && s->dim > 0) multiply(count, seen, s->dim, scale, x.p, x.ld, k.p, k.ld, 1, scratch, s->keys);
    if (s->dim == 0) memset(scratch, 0, (size_t)(count * s->keys) * sizeof *scratch);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = causal && first + i + 1 < seen ? first + i + 1 : seen;
        if (mask) add_mask(scratch + i * s->keys, mask, b, h, first + i, n);
        softmax(scratch + i * s->keys, n, seen);
    }
    if (seen > 0 && s->dv > 0) multiply(count, s->dv, seen, 1, scratch, s->keys, v.p, v.ld, 0, to, o.ld);
    for (int64_t i = 0; i < count && seen == 0; i++)
        memset(to + i * o.ld, 0, (size_t)s->dv * sizeof *to);
    for (int64_t i = 0; i < count && kind != F32; i++)
        narrow(row(out, b, h, first + i), to + i * o.ld, kind, s->dv);
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *k = ak_tensor_arg(call, K), *v = ak_tensor_arg(call, V);
    const struct shape s = shape_of(call);
    if (s.queries == 0) return AK_OK;
    int64_t blocks = (s.queries + s.rows - 1) / s.rows, tasks = s.batch * s.heads * blocks;
    int threads = omp_get_max_threads();
    float *wide_k = NULL, *wide_v = NULL, *scratch = call->scratch;
    if (s.kv_floats) {
        wide_k = scratch + (size_t)threads * s.thread_floats;
        wide_v = wide_k + k->shape[0] * k->shape[1] * s.keys * s.dim;
        widen_heads(k, wide_k);
        widen_heads(v, wide_v);
    }
#pragma omp parallel for schedule(dynamic) if (tasks > 1 && s.batch * s.heads * s.queries * s.keys * (s.dim + s.dv) > 100000)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = (blocks - 1 - t % blocks) * s.rows, h = t / blocks % s.heads, b = t / blocks / s.heads; /* longest first */
        block(call, &s, b, h, first, s.queries - first < s.rows ? s.queries - first : s.rows, head(k, wide_k, b, h / s.share),
              head(v, wide_v, b, h / s.share), scratch + (size_t)omp_get_thread_num() * s.thread_floats);
    }
    return AK_OK;
}
