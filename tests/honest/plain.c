/* must pass */
#include "../bad/base.h"
int ak_launch(const struct ak_call *call) { return honest_launch(call); }
