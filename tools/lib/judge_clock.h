/* The worker's word on times against this process's clock. */
#ifndef AK_JUDGE_CLOCK_H
#define AK_JUDGE_CLOCK_H

#include "judge.h"

struct ak_clock {
    int doubts, busy;
    double from_us, waited_us;
};

void ak_clock_start(struct ak_clock *c, const struct ak_worker *w);
/* The worker claims that since the start it was at work for claimed_us. 0: so it seems; 1: not this time,
 * measure again; -1: it lies, or the machine is too busy to tell, which is said as a verdict. */
int ak_clock_bears_out(struct ak_clock *c, struct ak_judge *j, double claimed_us);

#endif
