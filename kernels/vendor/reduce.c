/* ak: types reduce */
/* The opponent of a reduction over the middle dim: rows by several accumulators, columns by adding
 * whole rows. f32. */
#include <math.h>

#include "ak_kernel.h"

enum op { SUM, MEAN, AMAX, AMIN, PROD };

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    *needs = (struct ak_needs){0, 0};
    return ak_is_dtype(x, kDLFloat, 32) && ak_is_dtype(out, kDLFloat, 32) && x->ndim == 3 && out->ndim == 2 ? AK_OK : AK_UNSUPPORTED;
}

static float bigger(float a, float b) { return b > a || b != b ? b : a; }
static float smaller(float a, float b) { return b < a || b != b ? b : a; }

static float reduce(const float *x, int64_t n, int64_t step, enum op op) {
    float v = op == AMAX ? -INFINITY : op == AMIN ? INFINITY : op == PROD ? 1 : 0;
    switch (op) {
    case SUM:
    case MEAN:
        if (step == 1) {
#pragma omp simd reduction(+ : v)
            for (int64_t i = 0; i < n; i++)
                v += x[i];
        } else {
            for (int64_t i = 0; i < n; i++)
                v += x[i * step];
        }
        return op == MEAN ? v / (float)n : v;
    case AMAX:
        for (int64_t i = 0; i < n; i++)
            v = v != v ? v : bigger(v, x[i * step]);
        return v;
    case AMIN:
        for (int64_t i = 0; i < n; i++)
            v = v != v ? v : smaller(v, x[i * step]);
        return v;
    case PROD:
        for (int64_t i = 0; i < n; i++)
            v *= x[i * step];
        return v;
    }
    return v;
}

/* All of one outer index: the columns lie side by side, so add up whole rows. */
static void columns(const float *x, int64_t n, int64_t step, float *o, int64_t width, enum op op) {
    for (int64_t i = 0; i < width; i++)
        o[i] = 0;
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; i < width; i++)
            o[i] += x[c * step + i];
    for (int64_t i = 0; i < width && op == MEAN; i++)
        o[i] /= (float)n;
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    const float *px = ak_data(call, 0);
    float *po = ak_data(call, 1);
    const char *name = ak_attr_enum(call, "op", "sum");
    enum op op = strcmp(name, "sum") == 0 ? SUM : strcmp(name, "mean") == 0 ? MEAN : strcmp(name, "amax") == 0 ? AMAX : strcmp(name, "amin") == 0 ? AMIN : PROD;
    int64_t outer = x->shape[0], n = x->shape[1], inner = x->shape[2];
    int together = inner > 1 && x->strides[2] == 1 && out->strides[1] == 1 && (op == SUM || op == MEAN);
#pragma omp parallel for if (outer * n * inner > 16384)
    for (int64_t o = 0; o < outer; o++) {
        const float *from = px + o * x->strides[0];
        float *to = po + o * out->strides[0];
        if (together) columns(from, n, x->strides[1], to, inner, op);
        for (int64_t i = 0; i < inner && !together; i++)
            to[i * out->strides[1]] = reduce(from + i * x->strides[2], n, x->strides[1], op);
    }
    return AK_OK;
}
