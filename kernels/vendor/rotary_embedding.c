/* ak: types rotary_embedding */
/* The opponent of the rotary embedding: one pass over each row of a head. f32. */
#include "ak_kernel.h"

enum { X, Y, COS, SIN, OUT, OUT2 };

static int rows_ok(const DLTensor *t) { return !t || (ak_is_dtype(t, kDLFloat, 32) && t->ndim == 4 && t->strides[3] == 1 && t->shape[3] % 2 == 0); }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    *needs = (struct ak_needs){0, 0};
    for (uint32_t i = 0; i <= OUT2; i++)
        if (!rows_ok(ak_tensor_arg(call, i))) return AK_UNSUPPORTED;
    return AK_OK;
}

static int64_t at(const DLTensor *t, int64_t b, int64_t h, int64_t s) {
    return (t->shape[0] == 1 ? 0 : b * t->strides[0]) + (t->shape[1] == 1 ? 0 : h * t->strides[1]) + (t->shape[2] == 1 ? 0 : s * t->strides[2]);
}

static void rotate(const float *x, const float *cos, const float *sin, float *o, int64_t dim, int interleaved) {
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
    const float *px = ak_data(call, from), *pc = ak_data(call, COS), *ps = ak_data(call, SIN);
    float *po = ak_data(call, to);
    int64_t heads = x->shape[1], steps = x->shape[2], rows = x->shape[0] * heads * steps;
    int interleaved = (int)ak_attr_int(call, "interleaved", 0);
#pragma omp parallel for if (rows * x->shape[3] > 16384)
    for (int64_t r = 0; r < rows; r++) {
        int64_t s = r % steps, h = r / steps % heads, b = r / steps / heads;
        rotate(px + at(x, b, h, s), pc + at(cos, b, h, s), ps + at(sin, b, h, s), po + at(out, b, h, s), x->shape[3], interleaved);
    }
}

int ak_launch(const struct ak_call *call) {
    apply(call, X, OUT);
    if (ak_tensor_arg(call, Y)) apply(call, Y, OUT2);
    return AK_OK;
}
