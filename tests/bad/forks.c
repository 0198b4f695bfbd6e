/* must fail: wrong: smoke: wrong value */
#include <unistd.h>
#include "base.h"
/* Leaves a process behind that outlives it, and does nothing itself. */
int ak_launch(const struct ak_call *call) {
    static int done;
    if (!done++ && fork() == 0) {
        setsid();
        execl("/bin/sleep", "sleep", "7191", (char *)0);
        _exit(0);
    }
    (void)call;
    return AK_OK;
}
