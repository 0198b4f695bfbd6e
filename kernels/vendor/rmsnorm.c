/* ak: types rmsnorm */
/* The opponent of RMSNorm: the residual add and the sum of squares in one pass, the scaling in
 * another while the row is in cache. f16 and bf16 rows are widened first. */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { X, RESIDUAL, WEIGHT, OUT, SUM };

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

static int usable(const DLTensor *t, int ndim, enum kind kind) {
    return !t || (kind_of(t) == kind && t->ndim == ndim && (t->strides[ndim - 1] == 1 || t->shape[ndim - 1] <= 1));
}

/* Scratch of halves: the weight, then a row of x and one of the residual for each thread. */
int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, X);
    enum kind kind = kind_of(x);
    if (kind == OTHER) return AK_UNSUPPORTED;
    for (uint32_t i = 0; i <= SUM; i++)
        if (!usable(ak_tensor_arg(call, i), i == WEIGHT ? 1 : 2, kind)) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){kind == F32 ? 0 : (size_t)(1 + 2 * omp_get_max_threads()) * (size_t)x->shape[1] * sizeof(float), 0};
    return AK_OK;
}

/* t = x + residual into t, its sum of squares returned. */
static float add(const float *x, const float *residual, float *t, int64_t n) {
    float squares = 0;
    if (residual) {
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++) {
            t[i] = x[i] + residual[i];
            squares += t[i] * t[i];
        }
    } else {
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++)
            squares += x[i] * x[i];
    }
    return squares;
}

/* `sum`, where there is a residual, takes x + residual; it may be `out`. */
static void normalise(const float *x, const float *residual, const float *w, float *sum, float *out, int64_t n, float eps) {
    float scale = 1 / sqrtf(add(x, residual, sum, n) / (float)n + eps);
    const float *t = residual ? sum : x;
    if (w) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = t[i] * scale * w[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = t[i] * scale;
    }
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, X), *res = ak_tensor_arg(call, RESIDUAL), *out = ak_tensor_arg(call, OUT), *sum = ak_tensor_arg(call, SUM);
    const char *px = ak_data(call, X), *pr = ak_data(call, RESIDUAL), *po = ak_data(call, OUT), *ps = ak_data(call, SUM);
    const float *w = ak_data(call, WEIGHT);
    int64_t rows = x->shape[0], n = x->shape[1];
    float eps = (float)ak_attr_real(call, "eps", 1e-5), *wide = call->scratch;
    enum kind kind = kind_of(x);
    if (kind != F32 && w) w = (widen(wide, (const char *)w, kind, n), wide);
#pragma omp parallel for if (rows > 1 && rows * n > 8192)
    for (int64_t r = 0; r < rows; r++) {
        const char *xi = at(px, kind, r * x->strides[0]), *ri = res ? at(pr, kind, r * res->strides[0]) : NULL;
        char *oi = (char *)at(po, kind, r * out->strides[0]), *si = sum ? (char *)at(ps, kind, r * sum->strides[0]) : NULL;
        if (kind == F32) {
            normalise((const float *)xi, (const float *)ri, w, (float *)(si ? si : oi), (float *)oi, n, eps);
            if (si && !ri) memcpy(si, xi, (size_t)n * sizeof(float));
            continue;
        }
        float *t = wide + (1 + 2 * omp_get_thread_num()) * n;
        widen(t, xi, kind, n);
        if (ri) widen(t + n, ri, kind, n);
        if (ri) add(t, t + n, t, n);
        if (si) narrow(si, t, kind, n);
        normalise(t, NULL, w, NULL, t, n, eps);
        narrow(oi, t, kind, n);
    }
    return AK_OK;
}
