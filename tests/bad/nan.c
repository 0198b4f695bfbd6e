/* must fail: wrong: smoke: NaN */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    for (int64_t k = 0; k < spoil_numel(OUT); k++) *spoil_at(OUT, k) = __builtin_nanf("");
    return AK_OK;
}
