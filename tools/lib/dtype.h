/* Element types: names, sizes, and conversion of single elements. */
#ifndef AK_DTYPE_H
#define AK_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, bytes, DLPack code, safetensors name */
#define AK_DTYPES(X)                                                                                                   \
    X(F64, "f64", 8, 2, "F64")                                                                                         \
    X(F32, "f32", 4, 2, "F32")                                                                                         \
    X(F16, "f16", 2, 2, "F16")                                                                                         \
    X(BF16, "bf16", 2, 4, "BF16")                                                                                      \
    X(I64, "i64", 8, 0, "I64")                                                                                         \
    X(I32, "i32", 4, 0, "I32")                                                                                         \
    X(I16, "i16", 2, 0, "I16")                                                                                         \
    X(I8, "i8", 1, 0, "I8")                                                                                            \
    X(U8, "u8", 1, 1, "U8")                                                                                            \
    X(BOOL, "bool", 1, 6, "BOOL")

enum ak_dtype {
#define X(id, name, size, code, st) AK_##id,
    AK_DTYPES(X)
#undef X
        AK_DTYPE_COUNT
};

const char *ak_dtype_name(enum ak_dtype d);
size_t ak_dtype_size(enum ak_dtype d);
int ak_dtype_dl_code(enum ak_dtype d);
int ak_dtype_from_name(const char *name);        /* "f32" -> AK_F32; -1 if there is none */
int ak_dtype_from_safetensors(const char *name); /* "F32" -> AK_F32; -1 if there is none */
static inline bool ak_dtype_is_float(enum ak_dtype d) { return d <= AK_BF16; }
/* Distance from 1 to the next value: 2^-52, 2^-23, 2^-10, 2^-7; 0 for integers. */
double ak_dtype_eps(enum ak_dtype d);

float ak_f16_to_f32(uint16_t h);
uint16_t ak_f32_to_f16(float f); /* round to nearest even, overflow to infinity */
float ak_bf16_to_f32(uint16_t h);
uint16_t ak_f32_to_bf16(float f); /* round to nearest even, NaN stays NaN */

/* Element i of an array of dtype d. Storing rounds once from double to nearest even for
 * floats; truncates towards zero for integers (saturating; NaN gives 0); != 0 for bool. */
double ak_load(enum ak_dtype d, const void *p, int64_t i);
void ak_store(enum ak_dtype d, void *p, int64_t i, double v);
/* Integers exactly, beyond 2^53 too; float dtypes convert. */
int64_t ak_load_i64(enum ak_dtype d, const void *p, int64_t i);
void ak_store_i64(enum ak_dtype d, void *p, int64_t i, int64_t v);

#endif
