/* ak: types rotary_embedding */
/* The opponent of the rotary embedding: one pass over each row of a head. f16 and bf16 rows are
 * widened first. */
#include <omp.h>

#include "ak_kernel.h"

enum { X, Y, COS, SIN, OUT, OUT2 };

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

static int usable(const DLTensor *t, enum kind kind) {
    return !t || (kind_of(t) == kind && t->ndim == 4 && t->strides[3] == 1 && t->shape[3] % 2 == 0);
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, X);
    enum kind kind = kind_of(x);
    if (kind == OTHER) return AK_UNSUPPORTED;
    for (uint32_t i = 0; i <= OUT2; i++)
        if (!usable(ak_tensor_arg(call, i), kind)) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){kind == F32 ? 0 : (size_t)omp_get_max_threads() * 4 * (size_t)x->shape[3] * sizeof(float), 0};
    return AK_OK;
}

static int64_t offset(const DLTensor *t, int64_t b, int64_t h, int64_t s) {
    return (t->shape[0] == 1 ? 0 : b * t->strides[0]) + (t->shape[1] == 1 ? 0 : h * t->strides[1]) + (t->shape[2] == 1 ? 0 : s * t->strides[2]);
}

static void rotate(const float *restrict x, const float *restrict cos, const float *restrict sin, float *restrict o, int64_t dim, int interleaved) {
    int64_t half = dim / 2;
    if (interleaved) {
        for (int64_t i = 0; i < half; i++) {
            o[2 * i] = x[2 * i] * cos[2 * i] - x[2 * i + 1] * sin[2 * i];
            o[2 * i + 1] = x[2 * i + 1] * cos[2 * i + 1] + x[2 * i] * sin[2 * i + 1];
        }
    } else {
        for (int64_t i = 0; i < half; i++) {
            o[i] = x[i] * cos[i] - x[i + half] * sin[i];
            o[i + half] = x[i + half] * cos[i + half] + x[i] * sin[i + half];
        }
    }
}

static void apply(const struct ak_call *call, uint32_t from, uint32_t to) {
    const DLTensor *x = ak_tensor_arg(call, from), *cos = ak_tensor_arg(call, COS), *sin = ak_tensor_arg(call, SIN), *out = ak_tensor_arg(call, to);
    const char *px = ak_data(call, from), *pc = ak_data(call, COS), *ps = ak_data(call, SIN), *po = ak_data(call, to);
    int64_t heads = x->shape[1], steps = x->shape[2], dim = x->shape[3], rows = x->shape[0] * heads * steps;
    int interleaved = (int)ak_attr_int(call, "interleaved", 0);
    enum kind kind = kind_of(x);
#pragma omp parallel for if (rows > 1 && rows * dim > 16384)
    for (int64_t r = 0; r < rows; r++) {
        int64_t s = r % steps, h = r / steps % heads, b = r / steps / heads;
        const char *xi = at(px, kind, offset(x, b, h, s)), *ci = at(pc, kind, offset(cos, b, h, s)), *si = at(ps, kind, offset(sin, b, h, s));
        char *oi = (char *)at(po, kind, offset(out, b, h, s));
        if (kind == F32) {
            rotate((const float *)xi, (const float *)ci, (const float *)si, (float *)oi, dim, interleaved);
            continue;
        }
        float *wide = (float *)call->scratch + omp_get_thread_num() * 4 * dim;
        widen(wide, xi, kind, dim);
        widen(wide + dim, ci, kind, dim);
        widen(wide + 2 * dim, si, kind, dim);
        rotate(wide, wide + dim, wide + 2 * dim, wide + 3 * dim, dim, interleaved);
        narrow(oi, wide + 3 * dim, kind, dim);
    }
}

int ak_launch(const struct ak_call *call) {
    apply(call, X, OUT);
    if (ak_tensor_arg(call, Y)) apply(call, Y, OUT2);
    return AK_OK;
}
