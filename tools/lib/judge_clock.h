/* The worker's word on times against this process's clock. */
#ifndef AK_JUDGE_CLOCK_H
#define AK_JUDGE_CLOCK_H

#include "judge.h"

struct ak_clock {
    int doubts, busy;
    double from_us, waited_us;
};

void ak_clock_start(struct ak_clock *c, const struct ak_worker *w);
/* What the worker says of the time since the start seems untrue, and some excess_us of it are not
 * accounted for. A few times are nothing; a busy machine is said as a verdict, a lie is the caller's to say. */
enum ak_doubt { AK_DOUBT_AGAIN, AK_DOUBT_LIE, AK_DOUBT_BUSY };
enum ak_doubt ak_clock_doubt(struct ak_clock *c, struct ak_judge *j, double excess_us);
/* The worker claims to have been at work for claimed_us of it. 0: so it seems; 1: not this time, measure
 * again; -1: a verdict. */
int ak_clock_bears_out(struct ak_clock *c, struct ak_judge *j, double claimed_us);

#endif
