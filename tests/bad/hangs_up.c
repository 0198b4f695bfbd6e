/* must fail: crash: smoke */
#include <unistd.h>
#include "base.h"
/* Closes the line to the judge. */
int ak_launch(const struct ak_call *call) {
    close(3);
    return honest_launch(call);
}
