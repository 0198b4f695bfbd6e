/* must fail: refused: memory of its own */
#include <stdlib.h>
#include "base.h"
int ak_launch(const struct ak_call *call) {
    static int full;
    for (char *p; !full && (p = malloc(1 << 26));) memset(p, 1, 1 << 26);
    full = 1;
    return honest_launch(call);
}
