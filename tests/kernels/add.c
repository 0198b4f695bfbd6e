/* ak: types aten.add.Tensor */
/* Adds equal row-major f32 tensors; refuses all else, so that the executor must fall back. */
#include "ak_kernel.h"

int ak_query(const struct ak_call *c, struct ak_needs *needs) {
    (void)needs;
    const DLTensor *a = ak_tensor_arg(c, 0), *b = ak_tensor_arg(c, 1);
    if (!a || !b || a->ndim != 2 || b->ndim != 2 || !ak_is_dtype(a, kDLFloat, 32)) return AK_UNSUPPORTED;
    for (int i = 0; i < 2; i++)
        if (a->shape[i] != b->shape[i] || a->strides[i] != (i ? 1 : a->shape[1]) || b->strides[i] != a->strides[i]) return AK_UNSUPPORTED;
    return AK_OK;
}

int ak_launch(const struct ak_call *c) {
    const DLTensor *t = ak_tensor_arg(c, 0);
    const float *a = ak_data(c, 0), *b = ak_data(c, 1);
    float *out = ak_data(c, 2), alpha = (float)ak_attr_real(c, "alpha", 1);
    for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++)
        out[i] = a[i] + alpha * b[i];
    return AK_OK;
}
