/* must fail: wrong: not the opponent's */
/* type: large_matmul */
#include "base.h"
/* One element, somewhere, of a product that nobody has time to make again. */
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    int64_t n = spoil_numel(OUT);
    if (n > 200000) *spoil_at(OUT, n / 3) += 0.01f;
    return rc;
}
