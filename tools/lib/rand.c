/* Two rounds of a 64-bit finaliser (Stafford's mix 13, as in SplitMix64) over seed and counter:
 * integer arithmetic only, no state, so any element can be drawn first. */
#include "rand.h"

#include <string.h>
#include <sys/random.h>

#include "err.h"

static inline uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t key_of(uint64_t seed) { return mix(seed + 0x9e3779b97f4a7c15u); } /* mix(0) is 0 */

static inline uint64_t draw(uint64_t key, uint64_t i) { return mix(key + i * 0x9e3779b97f4a7c15u); }

uint64_t ak_rand_u64(uint64_t seed, uint64_t i) { return draw(key_of(seed), i); }

uint64_t ak_rand_seed(uint64_t seed, const char *name) {
    uint64_t h = seed;
    for (; *name; name++)
        h = mix(h ^ (unsigned char)*name) + 0x9e3779b97f4a7c15u;
    return h;
}

/* The sum of four 16-bit uniforms has variance 4 (2^32 - 1) / 12; the scale makes that one. */
static inline float normal(uint64_t u) {
    int32_t sum = (int32_t)(u & 0xffff) + (int32_t)(u >> 16 & 0xffff) + (int32_t)(u >> 32 & 0xffff) + (int32_t)(u >> 48);
    return (float)(sum - 131070) * 2.6428998e-5f;
}

float ak_rand_normal(uint64_t seed, uint64_t i) { return normal(ak_rand_u64(seed, i)); }

/* ak_f32_to_f16 of a number that is no NaN, without branches, so that loops over it vectorise. Below
 * the least normal f16, 2^-14, adding 0.5 leaves multiples of 2^-24: the steps of its subnormals. */
static inline uint16_t f16_of(float f) {
    uint32_t u, small;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    float shifted;
    memcpy(&shifted, &a, sizeof a);
    shifted += 0.5f;
    memcpy(&small, &shifted, sizeof small);
    small -= 0x3f000000;
    uint32_t big = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    big = a >= 0x47800000 ? 0x7c00 : big;
    return (uint16_t)(sign | (a < 0x38800000 ? small : big));
}

void ak_rand_fill_normal(const struct ak_tensor *t, uint64_t seed, double mean, double std) {
    int64_t n = ak_numel(t);
    uint64_t key = key_of(seed);
    float m = (float)mean, s = (float)std;
    if (t->dtype == AK_F32 && ak_is_contiguous(t)) {
        float *p = (float *)t->data + t->offset;
#pragma omp parallel for simd schedule(static) if (n > 65536)
        for (int64_t i = 0; i < n; i++)
            p[i] = m + s * normal(draw(key, (uint64_t)i));
    } else if (t->dtype == AK_BF16 && ak_is_contiguous(t)) {
        uint16_t *p = (uint16_t *)t->data + t->offset;
#pragma omp parallel for schedule(static) if (n > 65536)
        for (int64_t i = 0; i < n; i++)
            p[i] = ak_f32_to_bf16(m + s * normal(draw(key, (uint64_t)i)));
    } else if (t->dtype == AK_F16 && ak_is_contiguous(t)) {
        uint16_t *p = (uint16_t *)t->data + t->offset;
#pragma omp parallel for simd schedule(static) if (n > 65536)
        for (int64_t i = 0; i < n; i++)
            p[i] = f16_of(m + s * normal(draw(key, (uint64_t)i)));
    } else {
#pragma omp parallel for schedule(static) if (n > 65536)
        for (int64_t i = 0; i < n; i++)
            ak_set(t, i, m + s * normal(draw(key, (uint64_t)i)));
    }
}

void ak_rand_fill_int(const struct ak_tensor *t, uint64_t seed, int64_t lo, int64_t hi) {
    int64_t n = ak_numel(t);
    uint64_t key = key_of(seed), span = hi > lo ? (uint64_t)hi - (uint64_t)lo : 1;
#pragma omp parallel for schedule(static) if (n > 65536)
    for (int64_t i = 0; i < n; i++) {
        /* the high half of a 128-bit product: no division, no visible bias */
        uint64_t at = (uint64_t)((unsigned __int128)draw(key, (uint64_t)i) * span >> 64);
        ak_store_i64(t->dtype, t->data, ak_index(t, i), (int64_t)((uint64_t)lo + at));
    }
}

uint64_t ak_rand_secret(void) {
    uint64_t v;
    if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v) ak_die_errno(AK_EXIT_IO, "cannot draw a random number");
    return v;
}
