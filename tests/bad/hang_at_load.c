/* must fail: hang: while it was loaded it gave no answer */
#include "base.h"
__attribute__((constructor)) static void forever(void) { for (volatile int i = 0;; i++) continue; }
int ak_launch(const struct ak_call *call) { return honest_launch(call); }
