/* must fail: wrong: smoke: wrong value */
/* type: matmul */
#include "base.h"
/* Inputs rounded to 10 bits, as tensor cores take them: not what was asked for. */
static float kept[2][1 << 22];
static float cut(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    u = (u + 0x1000) & ~0x1fffu;
    memcpy(&x, &u, 4);
    return x;
}
int ak_launch(const struct ak_call *call) {
    struct ak_call c = *call;
    struct ak_arg args[16];
    DLTensor tensors[2];
    memcpy(args, call->args, c.nargs * sizeof *args);
    for (int i = 0; i < 2; i++) {
        int64_t most = 0;
        tensors[i] = *args[i].tensor;
        for (int d = 0; d < tensors[i].ndim; d++) most += tensors[i].strides[d] * (tensors[i].shape[d] - 1);
        for (int64_t k = 0; k <= most; k++) kept[i][k] = cut(((float *)((char *)tensors[i].data + tensors[i].byte_offset))[k]);
        tensors[i].data = kept[i];
        tensors[i].byte_offset = 0;
        args[i].tensor = &tensors[i];
    }
    c.args = args;
    return honest_launch(&c);
}
