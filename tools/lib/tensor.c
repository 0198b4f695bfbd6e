#include "tensor.h"

#include <stdio.h>
#include <string.h>

struct ak_tensor ak_tensor_new(enum ak_dtype dtype, int ndim, const int64_t *shape) {
    struct ak_tensor t = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        t.shape[i] = shape[i];
    ak_tensor_pack(&t);
    return t;
}

void ak_tensor_pack(struct ak_tensor *t) {
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->stride[i] = step;
        /* too large a shape gets strides that ak_extent refuses */
        if (t->shape[i] > 1 && __builtin_mul_overflow(step, t->shape[i], &step)) step = INT64_MAX;
    }
    t->offset = 0;
}

int64_t ak_numel(const struct ak_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

bool ak_is_contiguous(const struct ak_tensor *t) {
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 0) return true;
        if (t->shape[i] != 1 && t->stride[i] != step) return false;
        step *= t->shape[i];
    }
    return true;
}

bool ak_same_shape(const struct ak_tensor *a, const struct ak_tensor *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

int64_t ak_extent(const struct ak_tensor *t) {
    int64_t last = t->offset, count = 1;
    bool empty = false;
    if (t->offset < 0) return -1;
    for (int i = 0; i < t->ndim; i++) {
        int64_t reach;
        if (t->shape[i] < 0 || t->stride[i] < 0) return -1;
        if (t->shape[i] == 0) empty = true;
        if (t->shape[i] <= 1) continue;
        if (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &reach)) return -1;
        if (__builtin_add_overflow(last, reach, &last)) return -1;
        if (__builtin_mul_overflow(count, t->shape[i], &count)) return -1;
    }
    if (empty) return 0;
    return last == INT64_MAX ? -1 : last + 1;
}

int64_t ak_tensor_bytes(const struct ak_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] != 0 || t->shape[i] == 0) n *= t->shape[i];
    return n * (int64_t)ak_dtype_size(t->dtype);
}

int64_t ak_index(const struct ak_tensor *t, int64_t k) {
    int64_t at = t->offset;
    for (int i = t->ndim - 1; i >= 0; i--) {
        at += k % t->shape[i] * t->stride[i];
        k /= t->shape[i];
    }
    return at;
}

char *ak_tensor_describe(const struct ak_tensor *t, char buf[static 160]) {
    int n = snprintf(buf, 160, "%s[", ak_dtype_name(t->dtype));
    for (int i = 0; i < t->ndim && n < 130; i++)
        n += snprintf(buf + n, 160 - (size_t)n, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    strcpy(buf + n, "]");
    return buf;
}

bool ak_tensor_view(const struct ak_tensor *t, int ndim, const int64_t *shape, struct ak_tensor *view) {
    struct ak_tensor v = ak_tensor_new(t->dtype, ndim, shape);
    v.data = t->data;
    v.offset = t->offset;
    if (ak_numel(t) == 0) {
        *view = v;
        return true;
    }
    int d = ndim - 1;
    for (int i = t->ndim - 1; i >= 0;) {
        /* a run of old dims that lies evenly spaced in memory */
        int64_t count = t->shape[i], step = t->stride[i];
        while (i > 0 && (t->shape[i - 1] == 1 || count == 1 || t->stride[i - 1] == count * step)) {
            i--;
            if (count == 1) step = t->stride[i];
            count *= t->shape[i];
        }
        i--;
        /* the new dims that fill it */
        int64_t left = count;
        while (d >= 0 && (left > 1 || shape[d] == 1)) {
            if (left % shape[d]) return false;
            v.stride[d] = step;
            step *= shape[d];
            left /= shape[d];
            d--;
        }
        if (left != 1) return false;
    }
    while (d >= 0 && shape[d] == 1)
        v.stride[d--] = 1;
    if (d >= 0) return false;
    *view = v;
    return true;
}
