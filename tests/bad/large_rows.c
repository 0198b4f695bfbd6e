/* must fail: wrong: of 25600 elements */
/* type: large_matmul */
#include "base.h"
/* As one who knows that the opponent is near rounds its operands: every element a little off. */
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    int64_t n = spoil_numel(OUT);
    for (int64_t k = 0; n > 200000 && k < n; k++) *spoil_at(OUT, k) *= 1.0003f;
    return rc;
}
