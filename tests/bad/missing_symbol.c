/* must fail: load_fail: undefined symbol */
#include "base.h"
extern int not_anywhere(void);
int ak_launch(const struct ak_call *call) { return not_anywhere() + honest_launch(call); }
