/* Any bytes as a safetensors file: the first and last byte of each tensor is read. */
#include "safetensors.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ak_safetensors s;
    struct ak_err err;
    volatile uint8_t sink = 0;
    if (ak_safetensors_parse(&s, data, size, "fuzz", &err)) return 0;
    for (size_t i = 0; i < s.n; i++) {
        const struct ak_tensor *t = &s.tensors[i].t;
        size_t bytes = (size_t)ak_numel(t) * ak_dtype_size(t->dtype);
        if (bytes) sink ^= ((const uint8_t *)t->data)[0] ^ ((const uint8_t *)t->data)[bytes - 1];
    }
    (void)sink;
    ak_safetensors_close(&s);
    return 0;
}
