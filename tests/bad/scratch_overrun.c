/* must fail: wrong: smoke: wrote outside, scratch */
#define OWN_QUERY
#include "base.h"
int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    int rc = honest_query(call, needs);
    needs->scratch_bytes += 64;
    return rc;
}
int ak_launch(const struct ak_call *call) {
    int rc = honest_launch(call);
    struct ak_needs needs = {0};
    ak_query(call, &needs);
    memset((char *)call->scratch + needs.scratch_bytes, 0, 8);
    return rc;
}
