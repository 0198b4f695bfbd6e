/* What took longer than was claimed may be a lie; or this process and the worker's threads had to wait
 * for a core, and two threads that spin for each other then take several times as long. How long they
 * waited is the system's word, not the worker's: where it explains the difference, nothing is concluded. */
#include "judge_clock.h"

#include <math.h>
#include <poll.h>
#include <unistd.h>

#include "host.h"
#include "judge_case.h"

enum { DOUBTS = 5, BUSY = 100, SLACK_US = 500 }; /* sending and waking take a part of the slack */

static double waited_us(const struct ak_worker *w) { return ak_host_waited_us(w->pid) + ak_host_waited_us(getpid()); }

void ak_clock_start(struct ak_clock *c, const struct ak_worker *w) {
    c->waited_us = waited_us(w);
    c->from_us = ak_now_us();
}

enum ak_doubt ak_clock_doubt(struct ak_clock *c, struct ak_judge *j, double excess_us) {
    bool explained = 2 * (waited_us(&j->w) - c->waited_us) > excess_us;
    if (!explained && ++c->doubts > DOUBTS) return AK_DOUBT_LIE;
    poll(NULL, 0, explained ? 20 : 5 << c->doubts); /* what disturbs may pass */
    if (!explained || ++c->busy <= BUSY) return AK_DOUBT_AGAIN;
    ak_judge_say(j, AK_VERDICT_REFUSED, "timing: other work on this machine leaves it no time: stop that and try again");
    return AK_DOUBT_BUSY;
}

int ak_clock_bears_out(struct ak_clock *c, struct ak_judge *j, double claimed_us) {
    double passed = ak_now_us() - c->from_us;
    if (claimed_us > 0 && claimed_us <= passed && passed <= 1.3 * claimed_us + SLACK_US) return 0;
    enum ak_doubt d = ak_clock_doubt(c, j, claimed_us <= passed ? passed - claimed_us : INFINITY);
    if (d == AK_DOUBT_AGAIN) return 1;
    return d == AK_DOUBT_BUSY ? -1 : ak_judge_say(j, AK_VERDICT_CLOCK_MISMATCH, "its process says %.1f us for what took %.1f us", claimed_us, passed);
}
