/* ak: types matmul */
/* A matmul that packs a constant b and counts how often it was asked to. */
#include "ak_kernel.h"

AK_EXPORT int prepare_count;
int prepare_count;

static int constant(const struct ak_call *c) { return c->args[1].role == AK_ROLE_CONSTANT; }

static float at(const DLTensor *t, const void *data, int64_t i, int64_t j, int64_t k) {
    return ((const float *)data)[i * t->strides[0] + j * t->strides[1] + k * t->strides[2]];
}

int ak_query(const struct ak_call *c, struct ak_needs *needs) {
    const DLTensor *a = ak_tensor_arg(c, 0), *b = ak_tensor_arg(c, 1), *out = ak_tensor_arg(c, 3);
    if (!ak_is_dtype(a, kDLFloat, 32) || a->ndim != 3 || b->ndim != 3 || out->ndim != 3) return AK_UNSUPPORTED;
    needs->scratch_bytes = 64;
    if (constant(c)) needs->packed_bytes = (size_t)(b->shape[0] * b->shape[1] * b->shape[2]) * sizeof(float);
    return AK_OK;
}

int ak_prepare(const struct ak_call *c) {
    const DLTensor *b = ak_tensor_arg(c, 1);
    float *p = c->packed;
    prepare_count++;
    for (int64_t i = 0; i < b->shape[0]; i++)
        for (int64_t j = 0; j < b->shape[1]; j++)
            for (int64_t k = 0; k < b->shape[2]; k++)
                *p++ = at(b, ak_data(c, 1), i, j, k);
    return AK_OK;
}

int ak_launch(const struct ak_call *c) {
    const DLTensor *a = ak_tensor_arg(c, 0), *b = ak_tensor_arg(c, 1), *bias = ak_tensor_arg(c, 2), *out = ak_tensor_arg(c, 3);
    int64_t M = a->shape[1], K = a->shape[2], N = b->shape[2];
    memset(c->scratch, 0xff, 64);
    for (int64_t i = 0; i < a->shape[0]; i++)
        for (int64_t m = 0; m < M; m++)
            for (int64_t n = 0; n < N; n++) {
                float sum = bias ? ((float *)ak_data(c, 2))[n * bias->strides[0]] : 0;
                for (int64_t k = 0; k < K; k++) {
                    float w = constant(c) ? ((float *)c->packed)[(i * K + k) * N + n] : at(b, ak_data(c, 1), i, k, n);
                    sum += at(a, ak_data(c, 0), i, m, k) * w;
                }
                ((float *)ak_data(c, 3))[i * out->strides[0] + m * out->strides[1] + n * out->strides[2]] = sum;
            }
    return AK_OK;
}
