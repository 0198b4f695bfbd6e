/* must fail: wrong: smoke: wrote outside, packed */
#define OWN_QUERY
#include "base.h"
int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    int rc = honest_query(call, needs);
    needs->packed_bytes = 64;
    return rc;
}
int ak_prepare(const struct ak_call *call) { memset(call->packed, 0, 96); return AK_OK; }
int ak_launch(const struct ak_call *call) { return honest_launch(call); }
