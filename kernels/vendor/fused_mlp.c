/* ak: types fused_mlp */
/* The opponent of a feed-forward block: two or three sgemms, an honest loop between. f32. */
#include <cblas.h>
#include <math.h>

#include "ak_kernel.h"

enum { X, GATE_W, UP_W, DOWN_W, GATE_BIAS, UP_BIAS, DOWN_BIAS, OUT, NARGS };

static int usable(const DLTensor *t) {
    if (!t) return 1;
    if (!ak_is_dtype(t, kDLFloat, 32)) return 0;
    return t->ndim == 1 || t->strides[1] == 1 || t->strides[0] == 1;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, X), *gate = ak_tensor_arg(call, GATE_W), *out = ak_tensor_arg(call, OUT);
    for (uint32_t i = 0; i < NARGS; i++)
        if (!usable(ak_tensor_arg(call, i))) return AK_UNSUPPORTED;
    if (x->strides[1] != 1 || out->strides[1] != 1) return AK_UNSUPPORTED;
    size_t hidden = (size_t)x->shape[0] * (size_t)gate->shape[1] * sizeof(float);
    *needs = (struct ak_needs){ak_tensor_arg(call, UP_W) ? 2 * hidden : hidden, 0};
    return AK_OK;
}

static void fill_bias(float *o, int64_t ld, int64_t m, int64_t n, const DLTensor *bias) {
    const float *p = (const float *)((const char *)bias->data + bias->byte_offset);
#pragma omp parallel for if (m * n > 65536)
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < n; c++)
            o[r * ld + c] = p[c * bias->strides[0]];
}

/* o[m,n] = a[m,k] w[k,n] + bias */
static void affine(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const DLTensor *w, const DLTensor *bias, float *o, int64_t ldo) {
    int plain = w->strides[1] == 1;
    int64_t ld = plain ? w->strides[0] : w->strides[1], least = plain ? n : k;
    if (bias) fill_bias(o, ldo, m, n, bias);
    if (m == 0 || n == 0) return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, plain ? CblasNoTrans : CblasTrans, (int)m, (int)n, (int)k, 1, a, (int)lda,
                (const float *)((const char *)w->data + w->byte_offset), (int)(ld > least ? ld : least), bias ? 1 : 0, o, (int)ldo);
}

static void silu(float *h, int64_t n) {
#pragma omp parallel for simd if (n > 16384)
    for (int64_t i = 0; i < n; i++)
        h[i] = h[i] / (1 + expf(-h[i]));
}
static void gelu(float *h, int64_t n) {
#pragma omp parallel for simd if (n > 16384)
    for (int64_t i = 0; i < n; i++)
        h[i] = 0.5f * h[i] * (1 + erff(h[i] * 0.70710678f));
}
static void gelu_tanh(float *h, int64_t n) {
#pragma omp parallel for simd if (n > 16384)
    for (int64_t i = 0; i < n; i++)
        h[i] = 0.5f * h[i] * (1 + tanhf(0.79788456f * (h[i] + 0.044715f * h[i] * h[i] * h[i])));
}
static void relu(float *h, int64_t n) {
#pragma omp parallel for simd if (n > 16384)
    for (int64_t i = 0; i < n; i++)
        h[i] = h[i] < 0 ? 0 : h[i];
}
static void multiply(float *h, const float *u, int64_t n) {
#pragma omp parallel for simd if (n > 16384)
    for (int64_t i = 0; i < n; i++)
        h[i] *= u[i];
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, X), *up = ak_tensor_arg(call, UP_W), *out = ak_tensor_arg(call, OUT);
    int64_t m = x->shape[0], k = x->shape[1], f = ak_tensor_arg(call, GATE_W)->shape[1], n = out->shape[1];
    int64_t ldx = x->strides[0] > k ? x->strides[0] : k, ldo = out->strides[0] > n ? out->strides[0] : n;
    float *h = call->scratch, *u = h + m * f;
    const char *activation = ak_attr_enum(call, "activation", "silu");
    affine(m, f, k, ak_data(call, X), ldx, ak_tensor_arg(call, GATE_W), ak_tensor_arg(call, GATE_BIAS), h, f);
    if (strcmp(activation, "silu") == 0)
        silu(h, m * f);
    else if (strcmp(activation, "gelu") == 0)
        gelu(h, m * f);
    else if (strcmp(activation, "gelu_tanh") == 0)
        gelu_tanh(h, m * f);
    else
        relu(h, m * f);
    if (up) {
        affine(m, f, k, ak_data(call, X), ldx, up, ak_tensor_arg(call, UP_BIAS), u, f);
        multiply(h, u, m * f);
    }
    affine(m, n, f, h, f, ak_tensor_arg(call, DOWN_W), ak_tensor_arg(call, DOWN_BIAS), ak_data(call, OUT), ldo);
    return AK_OK;
}
