/* ak: types softmax */
/* The opponent of softmax: three passes over a row, rows shared among threads. f16 and bf16 rows
 * are widened first. */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

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

static int rows_ok(const DLTensor *t, enum kind kind) {
    return kind_of(t) == kind && kind != OTHER && t->ndim == 2 && (t->strides[1] == 1 || t->shape[1] <= 1);
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    enum kind kind = kind_of(x);
    if (!rows_ok(x, kind) || !rows_ok(out, kind)) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){kind == F32 ? 0 : (size_t)omp_get_max_threads() * 2 * (size_t)x->shape[1] * sizeof(float), 0};
    return AK_OK;
}

/* Below this e^x is no normal number, and 0 here. libmvec takes such lanes one by one, and a mask makes
 * many of them: so they are clamped, in a loop apart, lest gcc see that a clamped e^x is not used. */
#define LEAST (-87.0f)

static void softmax(const float *restrict x, float *restrict o, int64_t n, int log) {
    float max = -INFINITY, sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++)
        o[i] = x[i] - max < LEAST ? LEAST : x[i] - max;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = o[i] <= LEAST ? 0 : expf(o[i]);
        o[i] = e;
        sum += e;
    }
    if (log) {
        float lse = logf(sum);
        for (int64_t i = 0; i < n; i++)
            o[i] = x[i] - max - lse;
    } else {
        float scale = 1 / sum;
        for (int64_t i = 0; i < n; i++)
            o[i] *= scale;
    }
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    const char *px = ak_data(call, 0), *po = ak_data(call, 1);
    enum kind kind = kind_of(x);
    int64_t rows = x->shape[0], n = x->shape[1];
    int log = (int)ak_attr_int(call, "log", 0);
#pragma omp parallel for if (rows > 1 && rows * n > 8192)
    for (int64_t r = 0; r < rows; r++) {
        const char *from = at(px, kind, r * x->strides[0]), *to = at(po, kind, r * out->strides[0]);
        float *wide = kind == F32 ? NULL : (float *)call->scratch + omp_get_thread_num() * 2 * n;
        if (wide) widen(wide, from, kind, n);
        softmax(wide ? wide : (const float *)from, wide ? wide + n : (float *)to, n, log);
        if (wide) narrow((char *)to, wide + n, kind, n);
    }
    return AK_OK;
}
