/* must fail: crash: died by signal 6 */
#include <stdlib.h>
#include "base.h"
int ak_launch(const struct ak_call *call) { (void)call; abort(); }
