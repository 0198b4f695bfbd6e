/* must fail: crash: died by signal 11 */
#include "base.h"
int ak_launch(const struct ak_call *call) { *(volatile int *)8 = 1; return honest_launch(call); }
