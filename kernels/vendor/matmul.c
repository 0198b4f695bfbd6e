/* ak: types matmul */
/* The opponent of every linear layer: OpenBLAS, the bias laid into the output before it.
 *
 * f32 goes to sgemm as it lies (sgemv for one row or one column). OpenBLAS has no product of
 * halves: f16 and bf16 are widened a strip of columns of b at a time, so that a strip is in cache
 * when sgemm reads it. OpenBLAS takes one thread when it is called inside a parallel region. */
#include <cblas.h>
#include <limits.h>
#include <omp.h>

#include "ak_kernel.h"

enum { A, B, BIAS, OUT };
enum { STRIP_BYTES = 1 << 20 };

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

/* How sgemm is to read a matrix: its leading dimension is the stride of the dim that is not
 * contiguous, and at least the length of the one that is. A dim of size 1 has any stride. */
struct side {
    int trans;
    int64_t ld;
};

static int readable(const DLTensor *t) {
    if (t->ndim != 3 || kind_of(t) == OTHER || t->shape[0] > INT_MAX || t->shape[1] > INT_MAX || t->shape[2] > INT_MAX) return 0;
    return t->strides[2] == 1 || t->shape[2] <= 1 || t->strides[1] == 1 || t->shape[1] <= 1;
}

static struct side side(const DLTensor *t) {
    int plain = t->strides[2] == 1 || t->shape[2] <= 1;
    int64_t along = t->shape[plain ? 2 : 1], lines = t->shape[plain ? 1 : 2];
    return (struct side){!plain, lines > 1 ? t->strides[plain ? 1 : 2] : along > 1 ? along : 1};
}

/* A stride shorter than the line it steps over (a broadcast, a sliding window) is no leading dimension. */
static int has_ld(const DLTensor *t) {
    struct side s = side(t);
    int64_t along = t->shape[s.trans ? 1 : 2];
    return (s.ld >= along && s.ld >= 1 && s.ld <= INT_MAX) || t->shape[1] * t->shape[2] == 0;
}

static int64_t strip_width(int64_t k, int64_t n) {
    int64_t w = STRIP_BYTES / 4 / (k > 0 ? k : 1) / 16 * 16;
    w = w < 32 ? 32 : w > 512 ? 512 : w;
    return w < n ? w : n > 0 ? n : 1;
}

/* Floats of scratch: all of a, then for each thread a strip of b and of out. */
static size_t half_floats(int64_t batch, int64_t m, int64_t n, int64_t k, int threads) {
    return (size_t)(batch * m * k) + (size_t)threads * (size_t)((k + m) * strip_width(k, n));
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *a = ak_tensor_arg(call, A), *b = ak_tensor_arg(call, B), *bias = ak_tensor_arg(call, BIAS), *out = ak_tensor_arg(call, OUT);
    enum kind kind = kind_of(a);
    *needs = (struct ak_needs){0, 0};
    if (!readable(a) || !readable(b) || !readable(out) || !has_ld(a) || !has_ld(b) || !has_ld(out)) return AK_UNSUPPORTED;
    if (out->strides[2] != 1 && out->shape[2] > 1) return AK_UNSUPPORTED;
    if (kind_of(b) != kind || kind_of(out) != kind || (bias && kind_of(bias) != kind)) return AK_UNSUPPORTED;
    if (kind != F32) needs->scratch_bytes = sizeof(float) * half_floats(out->shape[0], out->shape[1], out->shape[2], a->shape[2], omp_get_max_threads());
    return AK_OK;
}

struct product {
    int64_t batch, m, n, k, ldo;
    struct side sa, sb;
    const DLTensor *a, *b, *bias, *out;
    enum kind kind;
};

/* The bias, or zeros, in every row of o. */
static void lay(const struct product *p, const char *bias, float *o) {
    int64_t step = bias ? p->bias->strides[0] : 0;
    if (p->m == 0) return;
    for (int64_t i = 0; i < p->n; i++)
        if (bias)
            widen(o + i, at(bias, p->kind, i * step), p->kind, 1);
        else
            o[i] = 0;
#pragma omp parallel for if (p->m * p->n > 65536)
    for (int64_t r = 1; r < p->m; r++)
        memcpy(o + r * p->ldo, o, (size_t)p->n * sizeof *o);
}

static void multiply(const struct product *p, const float *a, const float *b, const char *bias, float *o) {
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, vector = m == 1 || n == 1;
    if (bias || vector || k == 0) lay(p, bias, o);
    if (m == 0 || n == 0 || k == 0) return;
    if (m == 1)
        cblas_sgemv(CblasRowMajor, p->sb.trans ? CblasNoTrans : CblasTrans, p->sb.trans ? n : k, p->sb.trans ? k : n, 1, b, (int)p->sb.ld, a,
                    p->sa.trans ? (int)p->sa.ld : 1, 1, o, 1);
    else if (n == 1)
        cblas_sgemv(CblasRowMajor, p->sa.trans ? CblasTrans : CblasNoTrans, p->sa.trans ? k : m, p->sa.trans ? m : k, 1, a, (int)p->sa.ld, b,
                    p->sb.trans ? 1 : (int)p->sb.ld, 1, o, (int)p->ldo);
    else
        cblas_sgemm(CblasRowMajor, p->sa.trans ? CblasTrans : CblasNoTrans, p->sb.trans ? CblasTrans : CblasNoTrans, m, n, k, 1, a, (int)p->sa.ld, b,
                    (int)p->sb.ld, bias ? 1 : 0, o, (int)p->ldo);
}

static void floats(const struct product *p, const float *a, const float *b, const char *bias, float *o) {
    int many = p->batch >= omp_get_max_threads() && p->batch * p->m * p->n * p->k > 100000;
#pragma omp parallel for if (many)
    for (int64_t i = 0; i < p->batch; i++)
        multiply(p, a + i * p->a->strides[0], b + i * p->b->strides[0], bias, o + i * p->out->strides[0]);
}

/* All of a as floats, row-major. */
static void widen_a(const struct product *p, const char *a, float *to) {
#pragma omp parallel for if (p->batch * p->m * p->k > 65536)
    for (int64_t r = 0; r < p->batch * p->m; r++) {
        int64_t from = r / p->m * p->a->strides[0] + (p->sa.trans ? r % p->m : r % p->m * p->sa.ld);
        if (!p->sa.trans)
            widen(to + r * p->k, at(a, p->kind, from), p->kind, p->k);
        else
            for (int64_t i = 0; i < p->k; i++)
                widen(to + r * p->k + i, at(a, p->kind, from + i * p->sa.ld), p->kind, 1);
    }
}

/* Columns c to c + n of one product of halves. */
static void strip(const struct product *p, const float *a, const char *b, const char *bias, char *o, int64_t c, int64_t n, float *scratch) {
    float *wide = scratch, *part = scratch + p->k * n;
    int64_t lines = p->sb.trans ? n : p->k, along = p->sb.trans ? p->k : n;
    for (int64_t i = 0; i < lines; i++)
        widen(wide + i * along, at(b, p->kind, p->sb.trans ? (c + i) * p->sb.ld : i * p->sb.ld + c), p->kind, along);
    struct product q = *p;
    q.n = q.ldo = n;
    q.sa = (struct side){0, p->k};
    q.sb.ld = along;
    multiply(&q, a, wide, bias ? at(bias, p->kind, c * p->bias->strides[0]) : NULL, part);
    for (int64_t r = 0; r < p->m; r++)
        narrow((char *)at(o, p->kind, r * p->ldo + c), part + r * n, p->kind, n);
}

static void halves(const struct product *p, const char *a, const char *b, const char *bias, char *o, float *scratch) {
    int64_t width = strip_width(p->k, p->n), strips = (p->n + width - 1) / width;
    float *wide = scratch + p->batch * p->m * p->k;
    widen_a(p, a, scratch);
#pragma omp parallel for if (p->batch * p->m * p->n * p->k > 20000) schedule(dynamic)
    for (int64_t t = 0; t < p->batch * strips; t++) {
        int64_t i = t / strips, c = t % strips * width, n = p->n - c < width ? p->n - c : width;
        strip(p, scratch + i * p->m * p->k, at(b, p->kind, i * p->b->strides[0]), bias, (char *)at(o, p->kind, i * p->out->strides[0]), c, n,
              wide + (int64_t)omp_get_thread_num() * (p->k + p->m) * width);
    }
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *a = ak_tensor_arg(call, A), *b = ak_tensor_arg(call, B), *out = ak_tensor_arg(call, OUT);
    const struct product p = {.batch = out->shape[0], .m = out->shape[1], .n = out->shape[2], .k = a->shape[2], .ldo = side(out).ld,
                              .sa = side(a), .sb = side(b), .a = a, .b = b, .bias = ak_tensor_arg(call, BIAS), .out = out, .kind = kind_of(a)};
    if (p.kind == F32)
        floats(&p, ak_data(call, A), ak_data(call, B), ak_data(call, BIAS), ak_data(call, OUT));
    else
        halves(&p, ak_data(call, A), ak_data(call, B), ak_data(call, BIAS), ak_data(call, OUT), call->scratch);
    return AK_OK;
}
