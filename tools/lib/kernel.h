/* Loading a kernel (a shared object with the face of kernels/ak_kernel.h) and calling it. */
#ifndef AK_KERNEL_LOAD_H
#define AK_KERNEL_LOAD_H

#include "ak_kernel.h"
#include "err.h"
#include "tensor.h"

struct ak_kernel {
    void *handle;
    char *path;
    int (*query)(const struct ak_call *, struct ak_needs *);
    int (*prepare)(const struct ak_call *); /* may be NULL */
    int (*launch)(const struct ak_call *);
};

int ak_kernel_open(struct ak_kernel *k, const char *path, struct ak_err *err);
void ak_kernel_close(struct ak_kernel *k);

/* A DLTensor over t; shape and strides are borrowed from t. */
DLTensor ak_dltensor(const struct ak_tensor *t);

#endif
