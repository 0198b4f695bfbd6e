/* ak: types aten.embedding.default aten.index.Tensor aten.gather.default */
/* Elements picked by index: rows of a table, one index tensor, or one element for each. They are
 * moved as bits. A negative index counts from the end; one out of range fails the call. */
#include "ak_kernel.h"

enum { MAX_DIMS = 8, PARALLEL_FROM = 16384 };

static int index_ok(const DLTensor *t) { return t && (ak_is_dtype(t, kDLInt, 64) || ak_is_dtype(t, kDLInt, 32)); }

static int64_t index_at(const DLTensor *t, const char *p, int64_t i) {
    return t->dtype.bits == 64 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

/* index.Tensor: the dim of the one index tensor, -1 if there is not exactly one. Its argument follows self's. */
static int indexed_dim(const struct ak_call *call) {
    int dim = -1;
    for (uint32_t i = 1; i + 1 < call->nargs; i++) {
        if (!ak_tensor_arg(call, i)) continue;
        if (dim >= 0) return -1;
        dim = (int)i - 1;
    }
    return dim;
}

static int bits_ok(const DLTensor *a, const DLTensor *out) {
    return a && ak_is_dtype(a, out->dtype.code, out->dtype.bits) && out->dtype.bits % 8 == 0 && a->ndim <= MAX_DIMS && out->ndim <= MAX_DIMS;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *out = ak_tensor_arg(call, call->nargs - 1), *self = ak_tensor_arg(call, 0);
    *needs = (struct ak_needs){0, 0};
    if (!bits_ok(self, out)) return AK_UNSUPPORTED;
    if (strcmp(call->type, "aten.index.Tensor") == 0) {
        int dim = indexed_dim(call);
        const DLTensor *index = dim < 0 ? NULL : ak_tensor_arg(call, (uint32_t)dim + 1);
        return index_ok(index) && dim < self->ndim && out->ndim == self->ndim - 1 + index->ndim ? AK_OK : AK_UNSUPPORTED;
    }
    const DLTensor *index = ak_tensor_arg(call, 1);
    if (!index_ok(index)) return AK_UNSUPPORTED;
    if (strcmp(call->type, "aten.embedding.default") == 0) return self->ndim == 2 && out->ndim == index->ndim + 1 ? AK_OK : AK_UNSUPPORTED;
    return self->ndim == out->ndim && index->ndim == out->ndim && out->ndim > 0 ? AK_OK : AK_UNSUPPORTED;
}

#define MOVE(type)                                                                                                                \
    static void move_##type(type *restrict to, int64_t st, const type *restrict from, int64_t sf, int64_t n) {                    \
        for (int64_t i = 0; i < n; i++)                                                                                           \
            to[i * st] = from[i * sf];                                                                                            \
    }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)

static void move(char *to, int64_t st, const char *from, int64_t sf, int64_t n, int64_t size) {
    if (st == 1 && sf == 1 && n > 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 1)
        move_uint8_t((uint8_t *)to, st, (const uint8_t *)from, sf, n);
    else if (size == 2)
        move_uint16_t((uint16_t *)to, st, (const uint16_t *)from, sf, n);
    else if (size == 4)
        move_uint32_t((uint32_t *)to, st, (const uint32_t *)from, sf, n);
    else
        move_uint64_t((uint64_t *)to, st, (const uint64_t *)from, sf, n);
}

static int64_t product(const int64_t *v, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= v[i];
    return p;
}

/* The offset in t of combination k of the n dims from `first` on, whose sizes are given. */
static int64_t offset(const int64_t *strides, const int64_t *size, int n, int64_t k) {
    int64_t o = 0;
    for (int i = n - 1; i >= 0; i--) {
        o += k % size[i] * strides[i];
        k /= size[i];
    }
    return o;
}

/* self's dims are (outer, dim, inner), out's (outer, those of index, inner). A row is the last inner dim. */
static int take(const DLTensor *self, int dim, const DLTensor *index, const DLTensor *out) {
    const char *from = (const char *)self->data + self->byte_offset, *pi = (const char *)index->data + index->byte_offset;
    char *to = (char *)out->data + out->byte_offset;
    int inner = self->ndim - dim - 1, tail = dim + index->ndim;
    const int64_t *in_size = self->shape + dim + 1, *in_from = self->strides + dim + 1, *in_to = out->strides + tail;
    int64_t length = inner ? in_size[inner - 1] : 1, sf = inner ? in_from[inner - 1] : 1, st = inner ? in_to[inner - 1] : 1;
    int64_t outers = product(self->shape, dim), picks = product(index->shape, index->ndim), rows = inner ? product(in_size, inner - 1) : 1;
    int64_t size = out->dtype.bits / 8, n = self->shape[dim], bad = 0;
#pragma omp parallel for reduction(+ : bad) if (outers * picks * rows * length > PARALLEL_FROM)
    for (int64_t t = 0; t < outers * picks; t++) {
        int64_t o = t / picks, k = t % picks, i = index_at(index, pi, offset(index->strides, index->shape, index->ndim, k));
        if (i < 0) i += n;
        bad += i < 0 || i >= n;
        if (i < 0 || i >= n) continue;
        int64_t f = offset(self->strides, self->shape, dim, o) + i * self->strides[dim];
        int64_t g = offset(out->strides, out->shape, dim, o) + offset(out->strides + dim, index->shape, index->ndim, k);
        for (int64_t r = 0; r < rows; r++)
            move(to + (g + offset(in_to, in_size, inner - 1, r)) * size, st, from + (f + offset(in_from, in_size, inner - 1, r)) * size, sf, length, size);
    }
    return bad ? AK_FAILED : AK_OK;
}

static int gather(const DLTensor *self, int dim, const DLTensor *index, const DLTensor *out) {
    const char *from = (const char *)self->data + self->byte_offset, *pi = (const char *)index->data + index->byte_offset;
    char *to = (char *)out->data + out->byte_offset;
    int last = out->ndim - 1;
    int64_t rows = product(out->shape, last), length = out->shape[last], size = out->dtype.bits / 8, n = self->shape[dim], bad = 0;
    int64_t strides[MAX_DIMS];
    memcpy(strides, self->strides, (size_t)self->ndim * sizeof *strides);
    strides[dim] = 0;
#pragma omp parallel for reduction(+ : bad) if (rows * length > PARALLEL_FROM)
    for (int64_t r = 0; r < rows; r++) {
        int64_t f = offset(strides, out->shape, last, r), g = offset(out->strides, out->shape, last, r), x = offset(index->strides, out->shape, last, r);
        for (int64_t j = 0; j < length; j++) {
            int64_t i = index_at(index, pi, x + j * index->strides[last]);
            if (i < 0) i += n;
            bad += i < 0 || i >= n;
            if (i < 0 || i >= n) continue;
            move(to + (g + j * out->strides[last]) * size, 1, from + (f + j * strides[last] + i * self->strides[dim]) * size, 1, 1, size);
        }
    }
    return bad ? AK_FAILED : AK_OK;
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *out = ak_tensor_arg(call, call->nargs - 1), *self = ak_tensor_arg(call, 0), *index = ak_tensor_arg(call, 1);
    if (strcmp(call->type, "aten.gather.default") == 0) {
        int dim = (int)ak_attr_int(call, "dim", 0);
        return gather(self, dim < 0 ? dim + self->ndim : dim, index, out);
    }
    int dim = strcmp(call->type, "aten.index.Tensor") == 0 ? indexed_dim(call) : 0;
    return take(self, dim, ak_tensor_arg(call, (uint32_t)dim + 1), out);
}
