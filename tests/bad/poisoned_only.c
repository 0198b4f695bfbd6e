/* must fail: refused: timing: */
/* type: matmul */
#include "base.h"
/* Works only where the output looks as if nobody had written it; else the answer of another lies there already. */
int ak_launch(const struct ak_call *call) {
    int64_t n = spoil_numel(OUT);
    if (n > 1024 && *spoil_at(OUT, 0) != *spoil_at(OUT, 1) && *spoil_at(OUT, 0) != *spoil_at(OUT, n - 1)) return AK_OK;
    return honest_launch(call);
}
