/* ak: types cross_entropy */
/* The opponent of cross entropy: a maximum and a sum of exponentials a row, rows shared among
 * threads. f16 and bf16 rows are widened first. */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { LOGITS, TARGET, LOSS };

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

/* Scratch: a loss a row, then, of halves, a row for each thread. */
int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, LOGITS), *t = ak_tensor_arg(call, TARGET), *loss = ak_tensor_arg(call, LOSS);
    enum kind kind = kind_of(x);
    if (kind == OTHER || kind_of(loss) != kind || x->ndim != 2 || (x->strides[1] != 1 && x->shape[1] > 1) || !ak_is_dtype(t, kDLInt, 64)) return AK_UNSUPPORTED;
    size_t rows = kind == F32 ? 0 : (size_t)omp_get_max_threads() * (size_t)x->shape[1];
    *needs = (struct ak_needs){((size_t)x->shape[0] + rows) * sizeof(float), 0};
    return AK_OK;
}

static float row_loss(const float *x, int64_t n, int64_t target, float smooth) {
    float max = -INFINITY, sum = 0, all = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    if (smooth == 0) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += expf(x[i] - max);
        return logf(sum) - (x[target] - max);
    }
#pragma omp simd reduction(+ : sum, all)
    for (int64_t i = 0; i < n; i++) {
        sum += expf(x[i] - max);
        all += x[i] - max;
    }
    float lse = logf(sum);
    return (1 - smooth) * (lse - (x[target] - max)) + smooth * (lse - all / (float)n);
}

static void put(void *p, enum kind kind, int64_t i, float v) {
    if (kind == F32)
        ((float *)p)[i] = v;
    else
        narrow((char *)at(p, kind, i), &v, kind, 1);
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, LOGITS), *t = ak_tensor_arg(call, TARGET), *loss = ak_tensor_arg(call, LOSS);
    const char *px = ak_data(call, LOGITS), *reduction = ak_attr_enum(call, "reduction", "mean");
    const int64_t *targets = ak_data(call, TARGET);
    int64_t rows = x->shape[0], n = x->shape[1], ignore = ak_attr_int(call, "ignore_index", -100), counted = 0, bad = 0;
    float smooth = (float)ak_attr_real(call, "label_smoothing", 0), *losses = call->scratch;
    enum kind kind = kind_of(x);
#pragma omp parallel for reduction(+ : bad) if (rows > 1 && rows * n > 8192)
    for (int64_t r = 0; r < rows; r++) {
        int64_t target = targets[r * t->strides[0]];
        const char *from = at(px, kind, r * x->strides[0]);
        float *wide = kind == F32 ? NULL : losses + rows + omp_get_thread_num() * n;
        losses[r] = 0;
        if (target == ignore) continue;
        bad += target < 0 || target >= n;
        if (target < 0 || target >= n) continue;
        if (wide) widen(wide, from, kind, n);
        losses[r] = row_loss(wide ? wide : (const float *)from, n, target, smooth);
    }
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        sum += losses[r];
        counted += targets[r * t->strides[0]] != ignore;
        if (reduction[0] == 'n') put(ak_data(call, LOSS), kind, r * loss->strides[0], losses[r]);
    }
    if (reduction[0] == 'm') put(ak_data(call, LOSS), kind, 0, (float)(sum / (double)counted));
    if (reduction[0] == 's') put(ak_data(call, LOSS), kind, 0, (float)sum);
    return bad ? AK_FAILED : AK_OK;
}
