/* must fail: wrong: smoke: wrote before the start */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    if (spoil_numel(OUT)) spoil_at(OUT, 0)[-1] = 0;
    return rc;
}
