/* must fail: wrong: wrong value */
#include <sys/socket.h>
#include "base.h"
/* Answers the judge before the work is done, thrice, so that later questions have their answers already. */
int ak_launch(const struct ak_call *call) {
    static char reply[16384];
    static int calls;
    if (++calls == 3)
        for (size_t n = 4096; n <= sizeof reply; n *= 2) send(3, reply, n, 0);
    return honest_launch(call);
}
