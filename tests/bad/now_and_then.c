/* must fail: wrong: wrong value */
#include "base.h"
/* One call in twenty leaves an element unwritten. */
int ak_launch(const struct ak_call *call) {
    static unsigned s = 1;
    int64_t n = spoil_numel(OUT);
    s = s * 1103515245 + 12345;
    if (n == 0 || (s >> 16) % 20 != 0) return honest_launch(call);
    float before = *spoil_at(OUT, n / 2);
    int rc = honest_launch(call);
    *spoil_at(OUT, n / 2) = before;
    return rc;
}
