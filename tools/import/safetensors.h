/* safetensors files, mapped: named tensors in row-major order. */
#ifndef AK_SAFETENSORS_H
#define AK_SAFETENSORS_H

#include "err.h"
#include "file.h"
#include "mem.h"
#include "tensor.h"

struct ak_safetensors {
    struct ak_map map;
    struct ak_safetensor {
        const char *name;
        struct ak_tensor t; /* data lies in the map, or in the arena where the file is not aligned */
    } *tensors;             /* in the order of their bytes */
    size_t n;
    struct ak_arena arena;
};

int ak_safetensors_open(struct ak_safetensors *s, const char *path, struct ak_err *err);
/* The same over bytes that outlive it. */
int ak_safetensors_parse(struct ak_safetensors *s, const uint8_t *data, size_t size, const char *name, struct ak_err *err);
void ak_safetensors_close(struct ak_safetensors *s);
const struct ak_tensor *ak_safetensors_find(const struct ak_safetensors *s, const char *name); /* or NULL */

#endif
