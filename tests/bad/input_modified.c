/* must fail: wrong: smoke: input modified */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    if (spoil_numel(IN)) *spoil_at(IN, spoil_numel(IN) - 1) += 1;
    return rc;
}
