/* must fail: wrong: smoke: wrong value */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int64_t n = spoil_numel(OUT);
    float kept = n ? *spoil_at(OUT, n - 1) : 0;
    int rc = honest_launch(call);
    if (n) *spoil_at(OUT, n - 1) = kept; /* the last element is never written */
    return rc;
}
