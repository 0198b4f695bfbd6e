/* must fail: crash: ak_launch returned 2 */
#include "base.h"
int ak_launch(const struct ak_call *call) { honest_launch(call); return AK_FAILED; }
