#include "dtype.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *safetensors;
    size_t size;
    int code;
} table[] = {
#define X(id, name, size, code, st) {name, st, size, code},
    AK_DTYPES(X)
#undef X
};

const char *ak_dtype_name(enum ak_dtype d) { return table[d].name; }
size_t ak_dtype_size(enum ak_dtype d) { return table[d].size; }
int ak_dtype_dl_code(enum ak_dtype d) { return table[d].code; }

int ak_dtype_from_name(const char *name) {
    for (int i = 0; i < AK_DTYPE_COUNT; i++)
        if (strcmp(table[i].name, name) == 0) return i;
    return -1;
}

int ak_dtype_from_safetensors(const char *name) {
    for (int i = 0; i < AK_DTYPE_COUNT; i++)
        if (strcmp(table[i].safetensors, name) == 0) return i;
    return -1;
}

double ak_dtype_eps(enum ak_dtype d) {
    switch (d) {
    case AK_F64: return 0x1p-52;
    case AK_F32: return 0x1p-23;
    case AK_F16: return 0x1p-10;
    case AK_BF16: return 0x1p-7;
    default: return 0;
    }
}

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float ak_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
    if (exp == 31) return float_of(sign | 0x7f800000 | man << 13);
    if (exp) return float_of(sign | (exp + 112) << 23 | man << 13);
    float sub = (float)man * 0x1p-24f; /* exact */
    return sign ? -sub : sub;
}

/* The double v rounded to a float format with `man` mantissa bits and least exponent `emin`,
 * as a double; the one rounding makes every store below correctly rounded. */
static double round_to(double v, int man, int emin, double max) {
    if (!isfinite(v) || v == 0) return v;
    int e;
    frexp(v, &e);
    int shift = (e - 1 < emin ? emin : e - 1) - man;
    double r = ldexp(nearbyint(ldexp(v, -shift)), shift);
    return fabs(r) > max ? copysign(INFINITY, v) : r;
}

static uint16_t f16_bits(double r) { /* r is exactly representable */
    uint32_t u = bits_of((float)r);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    uint32_t exp = u >> 23 & 255, man = u & 0x7fffff;
    if (exp == 255) return (uint16_t)(sign | 0x7c00 | (man ? 0x200 | man >> 13 : 0));
    if (exp >= 113) return (uint16_t)(sign | (exp - 112) << 10 | man >> 13);
    return (uint16_t)(sign | (uint16_t)(fabs(r) * 0x1p24));
}

uint16_t ak_f32_to_f16(float f) { return f16_bits(round_to(f, 10, -14, 65504)); }

float ak_bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t ak_f32_to_bf16(float f) {
    uint32_t u = bits_of(f);
    if (isnan(f)) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

double ak_load(enum ak_dtype d, const void *p, int64_t i) {
    switch (d) {
    case AK_F64: return ((const double *)p)[i];
    case AK_F32: return ((const float *)p)[i];
    case AK_F16: return ak_f16_to_f32(((const uint16_t *)p)[i]);
    case AK_BF16: return ak_bf16_to_f32(((const uint16_t *)p)[i]);
    default: return (double)ak_load_i64(d, p, i);
    }
}

static int64_t to_i64(double v) {
    if (isnan(v)) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    if (v < -0x1p63) return INT64_MIN;
    return (int64_t)v;
}

void ak_store(enum ak_dtype d, void *p, int64_t i, double v) {
    switch (d) {
    case AK_F64: ((double *)p)[i] = v; break;
    case AK_F32: ((float *)p)[i] = (float)v; break;
    case AK_F16: ((uint16_t *)p)[i] = f16_bits(round_to(v, 10, -14, 65504)); break;
    case AK_BF16: ((uint16_t *)p)[i] = ak_f32_to_bf16((float)round_to(v, 7, -126, 0x1.fep127)); break;
    case AK_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default: ak_store_i64(d, p, i, to_i64(v)); break;
    }
}

int64_t ak_load_i64(enum ak_dtype d, const void *p, int64_t i) {
    switch (d) {
    case AK_I64: return ((const int64_t *)p)[i];
    case AK_I32: return ((const int32_t *)p)[i];
    case AK_I16: return ((const int16_t *)p)[i];
    case AK_I8: return ((const int8_t *)p)[i];
    case AK_U8: return ((const uint8_t *)p)[i];
    case AK_BOOL: return ((const uint8_t *)p)[i] != 0;
    default: return to_i64(ak_load(d, p, i));
    }
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

void ak_store_i64(enum ak_dtype d, void *p, int64_t i, int64_t v) {
    switch (d) {
    case AK_I64: ((int64_t *)p)[i] = v; break;
    case AK_I32: ((int32_t *)p)[i] = (int32_t)clamp(v, INT32_MIN, INT32_MAX); break;
    case AK_I16: ((int16_t *)p)[i] = (int16_t)clamp(v, INT16_MIN, INT16_MAX); break;
    case AK_I8: ((int8_t *)p)[i] = (int8_t)clamp(v, INT8_MIN, INT8_MAX); break;
    case AK_U8: ((uint8_t *)p)[i] = (uint8_t)clamp(v, 0, UINT8_MAX); break;
    case AK_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default: ak_store(d, p, i, (double)v); break;
    }
}
