/* must fail: wrong: determinism: other bits for the same inputs */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    static int calls;
    int rc = honest_launch(call);
    if (++calls % 2 && spoil_numel(OUT)) *spoil_at(OUT, 0) *= 1.0000002f;
    return rc;
}
