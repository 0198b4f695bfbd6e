/* must fail: wrong: */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    int64_t n = spoil_numel(OUT);
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += *spoil_at(OUT, k);
    for (int64_t k = 0; k < n; k++) *spoil_at(OUT, k) = (float)(n > 1 ? sum / (double)n : 1.02 * sum);
    return rc;
}
