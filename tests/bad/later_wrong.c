/* must fail: wrong: wrong value */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    static int calls;
    int rc = honest_launch(call);
    if (++calls > 10 && spoil_numel(OUT)) *spoil_at(OUT, 0) += 1;
    return rc;
}
