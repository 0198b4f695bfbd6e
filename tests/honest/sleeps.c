/* must pass */
#include <unistd.h>
#include "../bad/base.h"
/* Slow while it is warmed up: that must not make the samples fewer. */
int ak_launch(const struct ak_call *call) {
    static int calls;
    if (++calls <= 20) usleep(20000);
    return honest_launch(call);
}
