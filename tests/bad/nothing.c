/* must fail: wrong: smoke: wrong value */
#include "base.h"
int ak_launch(const struct ak_call *call) { (void)call; return AK_OK; }
