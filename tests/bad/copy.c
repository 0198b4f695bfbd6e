/* must fail: wrong: smoke: wrong value */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int64_t n = spoil_numel(IN);
    for (int64_t k = 0; k < spoil_numel(OUT); k++) *spoil_at(OUT, k) = n ? *spoil_at(IN, k % n) : 0;
    return AK_OK;
}
