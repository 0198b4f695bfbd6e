/* must fail: wrong: case 'own shape' */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    if (spoil_numel(IN) > 20000) *spoil_at(OUT, 1) = *spoil_at(IN, 1);
    return rc;
}
