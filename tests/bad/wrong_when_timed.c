/* must fail: wrong: timing: wrong value */
#include "base.h"
/* Right for as long as a check lasts. */
int ak_launch(const struct ak_call *call) {
    static int calls;
    int rc = honest_launch(call);
    if (++calls > 100 && spoil_numel(OUT)) *spoil_at(OUT, 0) += 1;
    return rc;
}
