/* must fail: wrong: stability: wrong value */
#include "base.h"
/* Reads a short prefix, and if that is quiet does without care for large numbers. */
int ak_launch(const struct ak_call *call) {
    float max = 0;
    for (int64_t k = 0; k < 64 && k < spoil_numel(IN); k++) max = __builtin_fmaxf(max, __builtin_fabsf(*spoil_at(IN, k)));
    int rc = honest_launch(call);
    for (int64_t k = 0; max < 0.5f && max > 1e-3f && k < spoil_numel(OUT); k++) *spoil_at(OUT, k) = *spoil_at(IN, k);
    return rc;
}
