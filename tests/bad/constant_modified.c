/* must fail: wrong: smoke: constant modified */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    *spoil_at(spoil_first(call, AK_ROLE_CONSTANT), 0) += 1;
    return rc;
}
