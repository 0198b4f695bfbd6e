/* must fail: crash: ended its process with status 7 */
#include <unistd.h>
#include "base.h"
/* Tries to make the memory that it shares with the judge shorter; is not able to. */
int ak_launch(const struct ak_call *call) {
    if (ftruncate(4, 4096) != 0) _exit(7);
    return honest_launch(call);
}
