/* must fail: wrong: smoke: wrote past the end */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    for (int i = 1; i <= 32 && spoil_numel(OUT); i++) spoil_at(OUT, spoil_numel(OUT) - 1)[i] = 0;
    return rc;
}
