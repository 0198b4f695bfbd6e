/* ak: types softmax */
/* The opponent of softmax: three passes over a row, rows shared among threads. f32. */
#include <math.h>

#include "ak_kernel.h"

static int rows_ok(const DLTensor *t, int ndim) {
    return !t || (ak_is_dtype(t, kDLFloat, 32) \&\& t->ndim == ndim \&\& (t->strides[ndim - 1] == 1 || t->shape[ndim - 1] <= 1));
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    *needs = (struct ak_needs){0, 0};
    return rows_ok(ak_tensor_arg(call, 0), 2) && rows_ok(ak_tensor_arg(call, 1), 2) ? AK_OK : AK_UNSUPPORTED;
}

static void softmax(const float *x, float *o, int64_t n, int log) {
    float max = -INFINITY, sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = expf(x[i] - max);
        o[i] = log ? x[i] - max : e;
        sum += e;
    }
    float scale = log ? logf(sum) : 1 / sum;
    for (int64_t i = 0; i < n; i++)
        o[i] = log ? o[i] - scale : o[i] * scale;
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    const float *px = ak_data(call, 0);
    float *po = ak_data(call, 1);
    int64_t rows = x->shape[0], n = x->shape[1];
    int log = (int)ak_attr_int(call, "log", 0);
#pragma omp parallel for if (rows * n > 8192)
    for (int64_t r = 0; r < rows; r++)
        softmax(px + r * x->strides[0], po + r * out->strides[0], n, log);
    return AK_OK;
}
