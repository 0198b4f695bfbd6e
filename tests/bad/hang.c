/* must fail: hang: gave no answer */
#include "base.h"
int ak_launch(const struct ak_call *call) { (void)call; for (volatile int i = 0;; i++) continue; }
