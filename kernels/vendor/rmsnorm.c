/* ak: types rmsnorm */
/* The opponent of RMSNorm: the residual add and the sum of squares in one pass, the scaling in
 * another while the row is in cache. f32. */
#include <math.h>

#include "ak_kernel.h"

static int rows_ok(const DLTensor *t, int ndim) {
    return !t || (ak_is_dtype(t, kDLFloat, 32) \&\& t->ndim == ndim \&\& (t->strides[ndim - 1] == 1 || t->shape[ndim - 1] <= 1));
}

enum { X, RESIDUAL, WEIGHT, OUT, SUM };

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    *needs = (struct ak_needs){0, 0};
    for (uint32_t i = 0; i <= SUM; i++)
        if (!rows_ok(ak_tensor_arg(call, i), i == WEIGHT ? 1 : 2)) return AK_UNSUPPORTED;
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, X), *res = ak_tensor_arg(call, RESIDUAL), *out = ak_tensor_arg(call, OUT), *sum = ak_tensor_arg(call, SUM);
    const float *px = ak_data(call, X), *pr = ak_data(call, RESIDUAL), *w = ak_data(call, WEIGHT);
    float *po = ak_data(call, OUT), *ps = ak_data(call, SUM);
    int64_t rows = x->shape[0], n = x->shape[1];
    float eps = (float)ak_attr_real(call, "eps", 1e-5);
#pragma omp parallel for if (rows * n > 8192)
    for (int64_t r = 0; r < rows; r++) {
        const float *xi = px + r * x->strides[0], *ri = res ? pr + r * res->strides[0] : NULL;
        float *o = po + r * out->strides[0], *s = sum ? ps + r * sum->strides[0] : NULL, squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++) {
            float t = ri ? xi[i] + ri[i] : xi[i];
            o[i] = t;
            squares += t * t;
        }
        if (s) memcpy(s, o, (size_t)n * sizeof *s);
        float scale = 1 / sqrtf(squares / (float)n + eps);
        for (int64_t i = 0; i < n; i++)
            o[i] = w ? o[i] * scale * w[i] : o[i] * scale;
    }
    return AK_OK;
}
