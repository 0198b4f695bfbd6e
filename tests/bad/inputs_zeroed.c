/* must fail: wrong: smoke: input modified */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    for (int64_t k = 0; k < spoil_numel(IN); k++) *spoil_at(IN, k) = 0;
    for (int64_t k = 0; k < spoil_numel(OUT); k++) *spoil_at(OUT, k) = 0;
    return AK_OK;
}
