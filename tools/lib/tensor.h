/* A tensor: dtype, shape, strides and offset over a storage. Plain value type; it owns nothing.
 * The element [i0, i1, ...] is element number offset + i0*stride[0] + i1*stride[1] + ...
 * of the array of dtype that begins at data. Strides are in elements and >= 0. */
#ifndef AK_TENSOR_H
#define AK_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

#define AK_MAX_DIMS 8

struct ak_tensor {
    enum ak_dtype dtype;
    int ndim;
    int64_t shape[AK_MAX_DIMS], stride[AK_MAX_DIMS];
    int64_t offset;
    void *data; /* NULL while only the shape matters */
};

/* A row-major tensor of that shape, no data. */
struct ak_tensor ak_tensor_new(enum ak_dtype dtype, int ndim, const int64_t *shape);
void ak_tensor_pack(struct ak_tensor *t);         /* row-major strides, offset 0 */
int64_t ak_numel(const struct ak_tensor *t);      /* 1 for rank 0 */
bool ak_is_contiguous(const struct ak_tensor *t); /* row-major without gaps; dims of size 1 do not matter */
bool ak_same_shape(const struct ak_tensor *a, const struct ak_tensor *b);
/* Elements from the start of the storage to one past the last that t can reach; 0 if t is
 * empty; -1 on overflow or a negative stride, offset or size. */
int64_t ak_extent(const struct ak_tensor *t);
/* Bytes of the elements, each counted once (broadcast dims of stride 0 count once). */
int64_t ak_tensor_bytes(const struct ak_tensor *t);
/* The element number of the k-th element in row-major logical order. */
int64_t ak_index(const struct ak_tensor *t, int64_t k);
static inline double ak_get(const struct ak_tensor *t, int64_t k) { return ak_load(t->dtype, t->data, ak_index(t, k)); }
static inline void ak_set(const struct ak_tensor *t, int64_t k, double v) {
    ak_store(t->dtype, t->data, ak_index(t, k), v);
}
/* "f32[2,48,512]" into buf, which it returns. */
char *ak_tensor_describe(const struct ak_tensor *t, char buf[static 160]);
/* The strides that let t be seen with another shape without a copy (numel equal): true and
 * *view filled in, or false. The rule is PyTorch's: dims merge where stride[i] == stride[i+1]*shape[i+1]. */
bool ak_tensor_view(const struct ak_tensor *t, int ndim, const int64_t *shape, struct ak_tensor *view);

#endif
