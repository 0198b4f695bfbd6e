/* Counter-based random numbers: element i of stream `seed` is a pure function of (seed, i) in
 * integer arithmetic, so that every device draws the same bits. */
#ifndef AK_RAND_H
#define AK_RAND_H

#include <stdint.h>

#include "tensor.h"

uint64_t ak_rand_u64(uint64_t seed, uint64_t i);
uint64_t ak_rand_seed(uint64_t seed, const char *name); /* a stream of its own for a name */
static inline double ak_rand_uniform(uint64_t seed, uint64_t i) { return (double)(ak_rand_u64(seed, i) >> 11) * 0x1p-53; }
/* Mean 0, variance 1: the sum of four 16-bit uniforms out of one u64 (within +-3.46). Exact in
 * float, no libm. */
float ak_rand_normal(uint64_t seed, uint64_t i);
/* Fills t (logical order, any strides): floats mean + std * normal, integers in [lo, hi). Uses all cores. */
void ak_rand_fill_normal(const struct ak_tensor *t, uint64_t seed, double mean, double std);
void ak_rand_fill_int(const struct ak_tensor *t, uint64_t seed, int64_t lo, int64_t hi);
/* A seed nobody can foretell (getrandom). */
uint64_t ak_rand_secret(void);

#endif
