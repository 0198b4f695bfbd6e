/* Strided copies: the opponent pays for one where it cannot work in place, so it must be a fair one. */
#include <string.h>

#include "exec.h"

#define COPY(T)                                                                                                        \
    do {                                                                                                               \
        const T *s = from;                                                                                             \
        T *d = to;                                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                                                \
            d[i * ds] = s[i * ss];                                                                                     \
    } while (0)

static void copy_row(void *to, int64_t ds, const void *from, int64_t ss, int64_t n, size_t size) {
    if (ds == 1 && ss == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY(uint8_t); break;
    case 2: COPY(uint16_t); break;
    case 4: COPY(uint32_t); break;
    default: COPY(uint64_t); break;
    }
}

void ak_tensor_assign(const struct ak_tensor *to, const struct ak_tensor *from) {
    int last = to->ndim - 1;
    int64_t n = to->ndim ? to->shape[last] : 1, rows = n ? ak_numel(to) / n : 0;
    int64_t ds = to->ndim ? to->stride[last] : 1, ss = to->ndim ? from->stride[last] : 1;
    struct ak_tensor outer_to = *to, outer_from = *from;
    if (to->ndim) outer_to.ndim = outer_from.ndim = last;
    size_t size = ak_dtype_size(to->dtype);
#pragma omp parallel for if (rows * n > 1 << 15)
    for (int64_t r = 0; r < rows; r++)
        copy_row((char *)to->data + (size_t)ak_index(&outer_to, r) * size, ds,
                 (const char *)from->data + (size_t)ak_index(&outer_from, r) * size, ss, n, size);
}
