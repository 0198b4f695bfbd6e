/* must fail: refused: MB of scratch */
#define OWN_QUERY
#include "base.h"
int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    int rc = honest_query(call, needs);
    needs->scratch_bytes = (size_t)1 << 50;
    return rc;
}
int ak_launch(const struct ak_call *call) { return honest_launch(call); }
