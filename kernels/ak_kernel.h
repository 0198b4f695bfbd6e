/* ak_kernel.h - the face of a kernel: a shared object with two or three C functions.
 *
 * A kernel file is one self-contained source that includes nothing of the
 * project but this header. It exports, with C linkage,
 *
 *     int ak_query(const struct ak_call *call, struct ak_needs *needs);
 *     int ak_prepare(const struct ak_call *call);      (optional)
 *     int ak_launch(const struct ak_call *call);
 *
 * ak_query fills in the scratch and packed bytes that these arguments want and
 * returns AK_OK, or AK_UNSUPPORTED for arguments the kernel does not do. It
 * reads shapes, strides, dtypes and attributes, never tensor data (data may be
 * NULL). ak_prepare packs the AK_ROLE_CONSTANT arguments, and only those, into
 * call->packed; it is called once per set of constants and timed apart.
 * ak_launch does the work on call->stream. It allocates nothing, synchronises
 * nothing and keeps nothing between calls; on the CPU it returns when the work
 * is done (call->stream is NULL). All three may be called for many shapes in
 * any order.
 *
 * Tensors are DLPack's: the element [i0, i1, ...] lies at
 *     (char *)data + byte_offset + itemsize * (i0*strides[0] + i1*strides[1] + ...)
 * strides are in elements and never NULL here; a stride may be 0 (broadcast).
 * The caller owns everything. data + byte_offset is aligned to the element
 * size and no more. Outputs never overlap inputs or each other.
 *
 * The arguments of each kernel type, in order, are listed in rules/kernels.lua.
 */
#ifndef AK_KERNEL_H
#define AK_KERNEL_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AK_KERNEL_ABI 1

#ifdef __cplusplus
#define AK_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define AK_EXPORT __attribute__((visibility("default")))
#endif

/* The dtype code of a boolean (one byte, 0 or 1); DLPack before 1.0 has no name for it. */
#define AK_DL_BOOL 6

enum { AK_OK = 0, AK_UNSUPPORTED = 1, AK_FAILED = 2 };

enum ak_role {
    AK_ROLE_ABSENT = 0, /* an optional argument not given: tensor is NULL */
    AK_ROLE_INPUT = 1,
    AK_ROLE_CONSTANT = 2, /* an input whose contents never change between calls */
    AK_ROLE_OUTPUT = 3,
    AK_ROLE_INOUT = 4
};

struct ak_arg {
    const DLTensor *tensor;
    int32_t role;
};

enum ak_attr_type { AK_ATTR_INT = 1, AK_ATTR_REAL = 2, AK_ATTR_BOOL = 3, AK_ATTR_INTS = 4, AK_ATTR_ENUM = 5 };

struct ak_attr {
    const char *name;
    int32_t type;
    int32_t n; /* AK_ATTR_INTS: how many */
    union {
        int64_t i; /* AK_ATTR_INT; AK_ATTR_BOOL as 0 or 1 */
        double f;
        const int64_t *ints;
        const char *s;
    } v;
};

struct ak_call {
    uint32_t abi;     /* AK_KERNEL_ABI */
    const char *type; /* the kernel type ("matmul"), or an ATen op ("aten.add.Tensor") */
    uint32_t nargs, nattrs;
    const struct ak_arg *args;
    const struct ak_attr *attrs;
    void *scratch; /* at least needs.scratch_bytes, aligned to 256; contents undefined */
    void *packed;  /* at least needs.packed_bytes, aligned to 256; as ak_prepare left it */
    void *stream;  /* a CUstream; NULL on the CPU */
};

struct ak_needs {
    size_t scratch_bytes, packed_bytes;
};

AK_EXPORT int ak_query(const struct ak_call *call, struct ak_needs *needs);
AK_EXPORT int ak_prepare(const struct ak_call *call);
AK_EXPORT int ak_launch(const struct ak_call *call);

/* The tensor of argument i, or NULL where it is absent. */
static inline const DLTensor *ak_tensor_arg(const struct ak_call *call, uint32_t i) {
    return i < call->nargs ? call->args[i].tensor : NULL;
}

/* The address of the first element of argument i, or NULL where it is absent. */
static inline void *ak_data(const struct ak_call *call, uint32_t i) {
    const DLTensor *t = ak_tensor_arg(call, i);
    return t ? (char *)t->data + t->byte_offset : NULL;
}

static inline int ak_is_dtype(const DLTensor *t, int code, int bits) {
    return t->dtype.code == code && t->dtype.bits == bits && t->dtype.lanes == 1;
}

static inline const struct ak_attr *ak_attr_find(const struct ak_call *call, const char *name) {
    for (uint32_t i = 0; i < call->nattrs; i++)
        if (strcmp(call->attrs[i].name, name) == 0) return &call->attrs[i];
    return NULL;
}

/* An attribute that the call lacks is `otherwise`. */
static inline int64_t ak_attr_int(const struct ak_call *call, const char *name, int64_t otherwise) {
    const struct ak_attr *a = ak_attr_find(call, name);
    return a ? a->v.i : otherwise;
}
static inline double ak_attr_real(const struct ak_call *call, const char *name, double otherwise) {
    const struct ak_attr *a = ak_attr_find(call, name);
    return a ? a->v.f : otherwise;
}
static inline const char *ak_attr_enum(const struct ak_call *call, const char *name, const char *otherwise) {
    const struct ak_attr *a = ak_attr_find(call, name);
    return a ? a->v.s : otherwise;
}

#endif
