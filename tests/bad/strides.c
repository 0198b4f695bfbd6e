/* must fail: wrong: wrong value */
/* type: fused_mlp */
#include "base.h"
/* Takes every tensor for row-major. */
int ak_launch(const struct ak_call *call) {
    struct ak_call c = *call;
    struct ak_arg args[16];
    DLTensor tensors[16];
    int64_t strides[16][8];
    for (uint32_t i = 0; i < c.nargs; i++) {
        args[i] = call->args[i];
        if (!args[i].tensor) continue;
        tensors[i] = *args[i].tensor;
        int64_t step = 1;
        for (int d = tensors[i].ndim - 1; d >= 0; step *= tensors[i].shape[d--]) strides[i][d] = step;
        tensors[i].strides = strides[i];
        args[i].tensor = &tensors[i];
    }
    c.args = args;
    return honest_launch(&c);
}
