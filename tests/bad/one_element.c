/* must fail: wrong: smoke: wrong value */
#include "base.h"
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    int64_t n = spoil_numel(OUT), most = 0;
    for (int64_t k = 0; k < n; k++)
        if (__builtin_fabsf(*spoil_at(OUT, k)) > __builtin_fabsf(*spoil_at(OUT, most))) most = k;
    if (n) *spoil_at(OUT, most) *= 1.01f;
    return rc;
}
