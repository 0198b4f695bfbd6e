/* must fail: wrong: smoke: wrong value */
#include "base.h"
/* Answers of 11 bits, as if they had been through half precision. */
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    const DLTensor *o = OUT;
    for (int64_t k = 0, n = spoil_numel(o); k < n; k++) {
        uint32_t u;
        memcpy(&u, spoil_at(o, k), 4);
        u = (u + 0x1000) & 0xffffe000u;
        memcpy(spoil_at(o, k), &u, 4);
    }
    return rc;
}
