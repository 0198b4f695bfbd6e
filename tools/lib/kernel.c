#include "kernel.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

int ak_kernel_open(struct ak_kernel *k, const char *path, struct ak_err *err) {
    memset(k, 0, sizeof *k);
    /* dlopen searches the library path for a name without a slash */
    char *full = strchr(path, '/') ? ak_strdup(path) : ak_asprintf("./%s", path);
    k->handle = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    k->path = full;
    if (!k->handle) {
        ak_fail(err, AK_EXIT_INPUT, "cannot load '%s': %s", path, dlerror());
        ak_kernel_close(k);
        return -1;
    }
    *(void **)&k->query = dlsym(k->handle, "ak_query");
    *(void **)&k->prepare = dlsym(k->handle, "ak_prepare");
    *(void **)&k->launch = dlsym(k->handle, "ak_launch");
    const char *missing = !k->query ? "ak_query" : !k->launch ? "ak_launch" : NULL;
    if (missing) {
        ak_fail(err, AK_EXIT_INPUT, "'%s' is not a kernel: it has no %s (see kernels/ak_kernel.h)", path, missing);
        ak_kernel_close(k);
        return -1;
    }
    return 0;
}

void ak_kernel_close(struct ak_kernel *k) {
    if (k->handle) dlclose(k->handle);
    free(k->path);
    memset(k, 0, sizeof *k);
}

DLTensor ak_dltensor(const struct ak_tensor *t) {
    size_t size = ak_dtype_size(t->dtype);
    return (DLTensor){
        .data = t->data,
        .device = {.device_type = kDLCPU},
        .ndim = t->ndim,
        .dtype = {.code = (uint8_t)ak_dtype_dl_code(t->dtype), .bits = (uint8_t)(size * 8), .lanes = 1},
        .shape = (int64_t *)t->shape,
        .strides = (int64_t *)t->stride,
        .byte_offset = (uint64_t)t->offset * size,
    };
}
