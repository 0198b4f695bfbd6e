/* Runs of elements converted to plain arrays and back, the loops that everything else spends its time in. */
#include <math.h>
#include <string.h>

#include "walk.h"

static inline double from_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return (double)f;
}

static inline double from_f16(uint16_t h) {
    uint32_t u = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    f *= 0x1p112f; /* exact, subnormals too */
    memcpy(&u, &f, sizeof u);
    if ((h & 0x7c00) == 0x7c00) u = 0x7f800000 | (uint32_t)(h & 0x3ff) << 13;
    return from_f32(u | sign);
}

static inline double from_bf16(uint16_t h) { return from_f32((uint32_t)h << 16); }

/* v rounded to nearest even with 52 - cut mantissa bits; right for values that are normal in the narrow format. */
static inline double round_bits(double v, int cut) {
    uint64_t u, half = (UINT64_C(1) << (cut - 1)) - 1;
    memcpy(&u, &v, sizeof u);
    u += half + (u >> cut & 1);
    u &= ~((UINT64_C(1) << cut) - 1);
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline uint32_t f32_bits(double v) {
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline void put_f16(uint16_t *p, int64_t i, double v) {
    double a = fabs(v);
    if (a >= 0x1p-14 && a < 65520) {
        uint32_t u = f32_bits(round_bits(v, 42));
        p[i] = (uint16_t)((u >> 16 & 0x8000) | (((u & 0x7fffffff) >> 13) - (112 << 10)));
    } else {
        ak_store(AK_F16, p, i, v);
    }
}

static inline void put_bf16(uint16_t *p, int64_t i, double v) {
    double a = fabs(v);
    if (a >= 0x1p-126 && a < 0x1p127)
        p[i] = (uint16_t)(f32_bits(round_bits(v, 45)) >> 16);
    else
        ak_store(AK_BF16, p, i, v);
}

#define LOAD(type, expr)                                                                                               \
    {                                                                                                                  \
        const type *s = (const type *)p + at;                                                                          \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type v = s[i];                                                                                         \
                to[i] = expr;                                                                                          \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type v = s[i * step];                                                                                  \
                to[i] = expr;                                                                                          \
            }                                                                                                          \
        break;                                                                                                         \
    }

void ak_load_run(enum ak_dtype d, const void *p, int64_t at, int64_t step, int64_t n, double *to) {
    switch (d) {
    case AK_F64: LOAD(double, v)
    case AK_F32: LOAD(float, (double)v)
    case AK_F16: LOAD(uint16_t, from_f16(v))
    case AK_BF16: LOAD(uint16_t, from_bf16(v))
    case AK_I64: LOAD(int64_t, (double)v)
    case AK_I32: LOAD(int32_t, (double)v)
    case AK_I16: LOAD(int16_t, (double)v)
    case AK_I8: LOAD(int8_t, (double)v)
    case AK_U8: LOAD(uint8_t, (double)v)
    case AK_BOOL: LOAD(uint8_t, v != 0)
    default: break;
    }
}

void ak_load_run_i64(enum ak_dtype d, const void *p, int64_t at, int64_t step, int64_t n, int64_t *to) {
    switch (d) {
    case AK_I64: LOAD(int64_t, v)
    case AK_I32: LOAD(int32_t, v)
    case AK_I16: LOAD(int16_t, v)
    case AK_I8: LOAD(int8_t, v)
    case AK_U8: LOAD(uint8_t, v)
    case AK_BOOL: LOAD(uint8_t, v != 0)
    default:
        for (int64_t i = 0; i < n; i++)
            to[i] = ak_load_i64(d, p, at + i * step);
    }
}

#define STORE(type, expr)                                                                                              \
    {                                                                                                                  \
        type *t = (type *)p + at;                                                                                      \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                            \
                t[i] = (type)(expr);                                                                                   \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                t[i * step] = (type)(expr);                                                                            \
        break;                                                                                                         \
    }

void ak_store_run(enum ak_dtype d, void *p, int64_t at, int64_t step, int64_t n, const double *from) {
    switch (d) {
    case AK_F64: STORE(double, from[i])
    case AK_F32: STORE(float, from[i])
    case AK_F16:
        for (int64_t i = 0; i < n; i++)
            put_f16(p, at + i * step, from[i]);
        break;
    case AK_BF16:
        for (int64_t i = 0; i < n; i++)
            put_bf16(p, at + i * step, from[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            ak_store(d, p, at + i * step, from[i]);
    }
}

void ak_store_run_i64(enum ak_dtype d, void *p, int64_t at, int64_t step, int64_t n, const int64_t *from) {
    switch (d) {
    case AK_I64: STORE(int64_t, from[i])
    case AK_I32: STORE(int32_t, (uint32_t)from[i])
    case AK_I16: STORE(int16_t, (uint16_t)from[i])
    case AK_I8: STORE(int8_t, (uint8_t)from[i])
    case AK_U8: STORE(uint8_t, (uint8_t)from[i])
    case AK_BOOL: STORE(uint8_t, from[i] != 0)
    default:
        for (int64_t i = 0; i < n; i++)
            ak_store(d, p, at + i * step, (double)from[i]);
    }
}

void ak_round_run(enum ak_dtype d, int64_t n, double *v) {
    if (d == AK_F64) return;
    if (d == AK_F32) {
        for (int64_t i = 0; i < n; i++)
            v[i] = (double)(float)v[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t one;
        ak_store(d, &one, 0, v[i]);
        v[i] = ak_load(d, &one, 0);
    }
}

void ak_wrap_run(enum ak_dtype d, int64_t n, int64_t *v) {
    for (int64_t i = 0; d != AK_I64 && i < n; i++) {
        int64_t one;
        ak_store_run_i64(d, &one, 0, 1, 1, &v[i]);
        v[i] = ak_load_i64(d, &one, 0);
    }
}

double ak_sum(const double *v, int64_t n) {
    double s[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            s[j] += v[i + j];
    for (int j = 0; i < n; i++, j++)
        s[j] += v[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}
