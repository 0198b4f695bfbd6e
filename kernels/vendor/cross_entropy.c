/* ak: types cross_entropy */
/* The opponent of cross entropy: a maximum and a sum of exponentials a row, rows shared among
 * threads. f32 logits, i64 targets. */
#include <math.h>

#include "ak_kernel.h"

enum { LOGITS, TARGET, LOSS };

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, LOGITS), *t = ak_tensor_arg(call, TARGET);
    if (!ak_is_dtype(x, kDLFloat, 32) || x->ndim != 2 || (x->strides[1] != 1 && x->shape[1] > 1) || !ak_is_dtype(t, kDLInt, 64)) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){(size_t)x->shape[0] * sizeof(float), 0};
    return AK_OK;
}

static float row_loss(const float *x, int64_t n, int64_t target, float smooth) {
    float max = -INFINITY, sum = 0, all = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
#pragma omp simd reduction(+ : sum, all)
    for (int64_t i = 0; i < n; i++) {
        sum += expf(x[i] - max);
        all += x[i] - max;
    }
    float lse = logf(sum), loss = lse - (x[target] - max);
    return smooth == 0 ? loss : (1 - smooth) * loss + smooth * (lse - all / (float)n);
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, LOGITS), *t = ak_tensor_arg(call, TARGET), *loss = ak_tensor_arg(call, LOSS);
    const float *px = ak_data(call, LOGITS);
    const int64_t *pt = ak_data(call, TARGET);
    float *rows = call->scratch, *out = ak_data(call, LOSS);
    const char *reduction = ak_attr_enum(call, "reduction", "mean");
    int64_t n = x->shape[0], ignore = ak_attr_int(call, "ignore_index", -100), counted = 0;
    float smooth = (float)ak_attr_real(call, "label_smoothing", 0);
#pragma omp parallel for if (n * x->shape[1] > 8192)
    for (int64_t r = 0; r < n; r++) {
        int64_t target = pt[r * t->strides[0]];
        rows[r] = target == ignore ? 0 : row_loss(px + r * x->strides[0], x->shape[1], target, smooth);
    }
    double sum = 0;
    for (int64_t r = 0; r < n; r++) {
        sum += rows[r];
        counted += pt[r * t->strides[0]] != ignore;
        if (reduction[0] == 'n') out[r * loss->strides[0]] = rows[r];
    }
    if (reduction[0] == 'm') out[0] = (float)(sum / (double)counted);
    if (reduction[0] == 's') out[0] = (float)sum;
    return AK_OK;
}
