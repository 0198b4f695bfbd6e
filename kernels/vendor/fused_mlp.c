/* ak: types fused_mlp */
/* The opponent of a feed-forward block: two or three products by OpenBLAS, the activation between
 * them in one honest loop. Halves are widened a strip of a weight's columns at a time. */
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { X, GATE_W, UP_W, DOWN_W, GATE_BIAS, UP_BIAS, DOWN_BIAS, OUT, NARGS };
enum { STRIP_BYTES = 1 << 20 };

/* What glibc says of libmvec to -ffast-math alone: these have vector forms, NaN and infinities included. */
#if defined __x86_64__ && defined __GLIBC__ && __GLIBC_PREREQ(2, 35)
#pragma omp declare simd notinbranch
float expf(float);
#pragma omp declare simd notinbranch
float erff(float);
#pragma omp declare simd notinbranch
float tanhf(float);
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

static int usable(const DLTensor *t, enum kind kind) {
    if (!t) return 1;
    if (kind_of(t) != kind || t->shape[0] > INT_MAX) return 0;
    if (t->ndim == 1) return 1;
    int64_t plain = t->strides[1] == 1, ld = t->strides[plain ? 0 : 1], lines = t->shape[plain ? 0 : 1], along = t->shape[plain ? 1 : 0];
    if (t->ndim != 2 || t->shape[1] > INT_MAX || (!plain && t->strides[0] != 1)) return 0;
    return lines <= 1 || along == 0 || (ld >= along && ld <= INT_MAX);
}

static int64_t strip_width(int64_t k, int64_t n) {
    int64_t w = STRIP_BYTES / 4 / (k > 0 ? k : 1) / 16 * 16;
    w = w < 32 ? 32 : w > 512 ? 512 : w;
    return w < n ? w : n > 0 ? n : 1;
}

/* Scratch: h and the product with up_w; of halves also x, then out and a strip of a weight for each thread. */
int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, X), *gate = ak_tensor_arg(call, GATE_W), *out = ak_tensor_arg(call, OUT);
    enum kind kind = kind_of(x);
    if (kind == OTHER) return AK_UNSUPPORTED;
    for (uint32_t i = 0; i < NARGS; i++)
        if (!usable(ak_tensor_arg(call, i), kind)) return AK_UNSUPPORTED;
    int64_t m = x->shape[0], k = x->shape[1], f = gate->shape[1], n = out->shape[1];
    if ((x->strides[1] != 1 && k > 1) || (out->strides[1] != 1 && n > 1)) return AK_UNSUPPORTED;
    int64_t floats = m * f * (ak_tensor_arg(call, UP_W) ? 2 : 1), strips = k * strip_width(k, f) > f * strip_width(f, n) ? k * strip_width(k, f) : f * strip_width(f, n);
    if (kind != F32) floats += m * k + m * n + omp_get_max_threads() * strips;
    *needs = (struct ak_needs){(size_t)floats * sizeof(float), 0};
    return AK_OK;
}

static const char *data(const DLTensor *t) { return (const char *)t->data + t->byte_offset; }

/* The bias, or zeros, in every row of o. */
static void lay(float *o, int64_t ld, int64_t m, int64_t n, const DLTensor *bias, enum kind kind) {
    if (m == 0) return;
    for (int64_t i = 0; i < n; i++)
        if (bias)
            widen(o + i, at(data(bias), kind, i * bias->strides[0]), kind, 1);
        else
            o[i] = 0;
#pragma omp parallel for if (m * n > 65536)
    for (int64_t r = 1; r < m; r++)
        memcpy(o + r * ld, o, (size_t)n * sizeof *o);
}

/* o[m,n] += a[m,k] w[k,n] where `add`, else =. One row is sgemv's, which adds to what is laid. */
static void multiply(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *w, int64_t ldw, int trans, int add, float *o, int64_t ldo) {
    if (m == 1)
        cblas_sgemv(CblasRowMajor, trans ? CblasNoTrans : CblasTrans, (int)(trans ? n : k), (int)(trans ? k : n), 1, w, (int)ldw, a, 1, 1, o, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, trans ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)lda, w, (int)ldw, (float)add, o,
                    (int)ldo);
}

/* o[m,n] = a[m,k] w[k,n] + bias, all but w and bias floats. */
static void affine(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const DLTensor *w, const DLTensor *bias, float *o, int64_t ldo,
                   float *scratch) {
    int trans = w->strides[1] != 1;
    int64_t least = trans ? k : n, ld = w->strides[trans ? 1 : 0] > least ? w->strides[trans ? 1 : 0] : least;
    enum kind kind = kind_of(w);
    if (bias || m == 1 || k == 0) lay(o, ldo, m, n, bias, kind);
    if (m == 0 || n == 0 || k == 0) return;
    if (kind == F32) {
        multiply(m, n, k, a, lda, (const float *)data(w), ld, trans, bias != NULL, o, ldo);
        return;
    }
    int64_t width = strip_width(k, n);
#pragma omp parallel for if (m * n * k > 20000) schedule(dynamic)
    for (int64_t c = 0; c < n; c += width) {
        int64_t part = n - c < width ? n - c : width, lines = trans ? part : k, along = trans ? k : part;
        float *wide = scratch + omp_get_thread_num() * k * width;
        for (int64_t i = 0; i < lines; i++)
            widen(wide + i * along, at(data(w), kind, trans ? (c + i) * ld : i * ld + c), kind, along);
        multiply(m, part, k, a, lda, wide, along, trans, bias != NULL, o + c, ldo);
    }
}

/* h = expr(h), times u where there is one. */
#define ACTIVATION(name, expr)                                        \
    static void name(float *restrict h, const float *restrict u, int64_t n) { \
        if (u) {                                                      \
            _Pragma("omp parallel for simd if (n > 16384)")           \
            for (int64_t i = 0; i < n; i++) {                         \
                float x = h[i];                                       \
                h[i] = (expr) * u[i];                                 \
            }                                                         \
        } else {                                                      \
            _Pragma("omp parallel for simd if (n > 16384)")           \
            for (int64_t i = 0; i < n; i++) {                         \
                float x = h[i];                                       \
                h[i] = (expr);                                        \
            }                                                         \
        }                                                             \
    }
ACTIVATION(silu, x / (1 + expf(-x)))
ACTIVATION(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)))
ACTIVATION(gelu_tanh, 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x))))
ACTIVATION(relu, x < 0 ? 0 : x)

static void activate(const char *name, float *h, const float *u, int64_t n) {
    if (strcmp(name, "silu") == 0)
        silu(h, u, n);
    else if (strcmp(name, "gelu") == 0)
        gelu(h, u, n);
    else if (strcmp(name, "gelu_tanh") == 0)
        gelu_tanh(h, u, n);
    else
        relu(h, u, n);
}

static int64_t ld(const DLTensor *t) { return t->strides[0] > t->shape[1] ? t->strides[0] : t->shape[1]; }

int ak_launch(const struct ak_call *call) {
    const DLTensor *tx = ak_tensor_arg(call, X), *up = ak_tensor_arg(call, UP_W), *out = ak_tensor_arg(call, OUT);
    int64_t m = tx->shape[0], k = tx->shape[1], f = ak_tensor_arg(call, GATE_W)->shape[1], n = out->shape[1], ldx = ld(tx), ldo = ld(out);
    float *h = call->scratch, *u = up ? h + m * f : NULL, *next = h + m * f * (up ? 2 : 1), *o = ak_data(call, OUT);
    const float *x = ak_data(call, X);
    enum kind kind = kind_of(tx);
    if (kind != F32) {
        for (int64_t r = 0; r < m; r++)
            widen(next + r * k, at(x, kind, r * ldx), kind, k);
        x = next, o = next + m * k, next = o + m * n, ldx = k, ldo = n;
    }
    affine(m, f, k, x, ldx, ak_tensor_arg(call, GATE_W), ak_tensor_arg(call, GATE_BIAS), h, f, next);
    if (up) affine(m, f, k, x, ldx, up, ak_tensor_arg(call, UP_BIAS), u, f, next);
    activate(ak_attr_enum(call, "activation", "silu"), h, u, m * f);
    affine(m, n, f, h, f, ak_tensor_arg(call, DOWN_W), ak_tensor_arg(call, DOWN_BIAS), o, ldo, next);
    for (int64_t r = 0; r < m && kind != F32; r++)
        narrow((char *)at(ak_data(call, OUT), kind, r * ld(out)), o + r * n, kind, n);
    return AK_OK;
}
