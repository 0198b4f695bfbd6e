/* must fail: wrong: smoke: infinity */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    if (spoil_numel(OUT)) *spoil_at(OUT, spoil_numel(OUT) / 2) = __builtin_inff();
    return rc;
}
