/* out = x * y + z of equal row-major f32 tensors, as a kernel for groups of a test type. WRONG,
 * REFUSE and FAIL make it what they say. */
#include "ak_kernel.h"

int ak_query(const struct ak_call *c, struct ak_needs *needs) {
    (void)c, (void)needs;
#ifdef REFUSE
    return AK_UNSUPPORTED;
#else
    return AK_OK;
#endif
}

int ak_launch(const struct ak_call *c) {
#ifdef FAIL
    return AK_FAILED;
#endif
    const DLTensor *t = ak_tensor_arg(c, 0);
    const float *x = ak_data(c, 0), *y = ak_data(c, 1), *z = ak_data(c, 2);
    float *out = ak_data(c, 3);
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * y[i] + z[i];
#ifdef WRONG
    if (n) out[n - 1] += 1;
#endif
    return AK_OK;
}
