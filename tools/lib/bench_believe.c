/* Can the times be believed? They are the word of a process that runs the candidate's code. The sums were
 * borne out, as far as short commands allow; here are the questions that sums leave open, each asked with
 * the samples' own protocol, and asked again where other work on the machine may have been the reason. */
#include <math.h>
#include <stdio.h>

#include "host.h"
#include "judge_bench.h"
#include "judge_clock.h"
#include "rand.h"

struct found {
    double excess_us; /* by how much it differs from what was said */
    char why[256];    /* or "" */
};
typedef int question(struct ak_judge *j, struct found *f);

static const char *const names[AK_WORKER_SLOTS] = {"candidate", "incumbent", "opponent"};

/* ---- who took which part of the time? ---- */

/* What a command takes that has nothing to do, at the least. */
static int round_trip(struct ak_judge *j, double *us) {
    *us = INFINITY;
    for (int i = 0; i < 5; i++) {
        struct ak_command c = {.kind = AK_DO_TIME};
        struct ak_reply r;
        double from = ak_now_us();
        if (ak_bench_ask(j, &c, &r, 0, "while it was timed it")) return -1;
        *us = fmin(*us, ak_now_us() - from);
    }
    return 0;
}

/* Samples of one slot alone, by this clock. */
static int block(struct ak_judge *j, enum ak_slot slot, double trip_us, double *us, double *excess) {
    struct ak_bench *b = j->bench;
    double median = ak_median(b->samples[slot], b->n), passed = 0, done = 0;
    size_t steps = (size_t)fmin(AK_WORKER_STEPS, ceil(2000 / (median * (double)b->calls)));
    for (int i = 0; i < 8 && done * median < 2000; i++) {
        struct ak_command c = {.kind = AK_DO_TIME};
        struct ak_reply r;
        while (c.nsteps < steps)
            c.steps[c.nsteps++] = ak_bench_step(b, slot, b->calls);
        double from = ak_now_us();
        if (ak_bench_ask(j, &c, &r, (double)(steps * b->calls), "while it was timed it")) return -1;
        passed += ak_now_us() - from - trip_us - (double)steps * AK_WORKER_PAUSE_US;
        done += (double)(steps * b->calls);
    }
    *us = fmax(passed, 0.01) / done;
    *excess += fmax(passed - median * done, 0);
    return 0;
}

/* What slows the machine down slows both, so a ratio has to be nearer than a time. */
static int shares(struct ak_judge *j, struct found *f) {
    struct ak_bench *b = j->bench;
    double us[AK_WORKER_SLOTS], trip;
    if (round_trip(j, &trip)) return -1;
    for (int s = AK_CANDIDATE; s < AK_WORKER_SLOTS; s++)
        if (b->has[s] && block(j, (enum ak_slot)s, trip, &us[s], &f->excess_us)) return -1;
    for (int s = AK_INCUMBENT; s < AK_WORKER_SLOTS; s++) {
        double claimed = b->has[s] ? ak_bench_ratio(b, (enum ak_slot)s).median : 0;
        if (claimed * us[AK_CANDIDATE] > 1.3 * us[s])
            snprintf(f->why, sizeof f->why, "its process says it takes %.3f of the %s's time; by this clock it is %.3f", 1 / claimed, names[s],
                     us[AK_CANDIDATE] / us[s]);
    }
    if (us[AK_CANDIDATE] > 2 * j->timing.latency_us)
        snprintf(f->why, sizeof f->why, "its process says a call takes %.3f us; by this clock it is %.3f us", j->timing.latency_us, us[AK_CANDIDATE]);
    return 0;
}

/* ---- does it do the work each time? ---- */

/* A sample on every set, each with another input and spoiled outputs: nothing to remember, nothing to leave as it is. */
static int fresh(struct ak_judge *j, enum ak_slot slot, double *us) {
    struct ak_bench *b = j->bench;
    struct ak_command c = {.kind = AK_DO_SPOIL};
    struct ak_reply r;
    for (size_t i = 0; i < b->place.nsets; i++)
        ak_image_nudge(&b->images[i], &b->place, j->w.mem, i, ak_rand_u64(b->seed, b->shuffles++));
    ak_want_release(&b->want); /* it was of other inputs */
    if (ak_bench_ask(j, &c, &r, 1, "in set-up it")) return -1;
    size_t calls = b->calls < b->place.nsets ? b->calls : b->place.nsets, steps = b->place.nsets / calls;
    steps = steps < 1 ? 1 : steps > AK_WORKER_STEPS ? AK_WORKER_STEPS : steps;
    c = (struct ak_command){.kind = AK_DO_TIME};
    b->next = 0;
    while (c.nsteps < steps)
        c.steps[c.nsteps++] = ak_bench_step(b, slot, calls);
    if (ak_bench_ask(j, &c, &r, (double)(steps * calls), "while it was timed it")) return -1;
    *us = 0;
    for (size_t i = 0; i < steps; i++)
        *us += r.us[i] / (double)(steps * calls);
    return 0;
}

static int works(struct ak_judge *j, struct found *f) {
    struct ak_bench *b = j->bench;
    double us[AK_WORKER_SLOTS];
    for (int s = AK_CANDIDATE; s < AK_WORKER_SLOTS; s++)
        if (b->has[s] && fresh(j, (enum ak_slot)s, &us[s])) return -1;
    for (int s = AK_INCUMBENT; s < AK_WORKER_SLOTS; s++) {
        double claimed = b->has[s] ? ak_bench_ratio(b, (enum ak_slot)s).median : 0;
        if (claimed * us[AK_CANDIDATE] <= 1.3 * us[s] || us[AK_CANDIDATE] <= 1.3 * j->timing.latency_us) continue;
        f->excess_us = (us[AK_CANDIDATE] - j->timing.latency_us) * (double)b->place.nsets;
        snprintf(f->why, sizeof f->why, "timing: it takes %.3f us, but %.3f us where it has not seen the inputs and no answer lies in the output", j->timing.latency_us,
                 us[AK_CANDIDATE]);
    }
    return 0;
}

/* ---- are the others as they were? ---- */

static int others(struct ak_judge *j, struct found *f) {
    struct ak_bench *b = j->bench;
    for (int s = AK_INCUMBENT; s < AK_WORKER_SLOTS; s++) {
        double now;
        if (!b->has[s]) continue;
        if (ak_bench_estimate(j, (enum ak_slot)s, &now)) return -1;
        if (now <= 1.3 * b->us[s]) continue;
        f->excess_us = 5 * (now - b->us[s]); /* an estimate is of so many samples */
        snprintf(f->why, sizeof f->why, "timing: the %s took %.3f us before it was loaded and takes %.3f us since", names[s], b->us[s], now);
    }
    return 0;
}

static int ask(struct ak_judge *j, question *q, enum ak_verdict v) {
    struct ak_clock clock = {0};
    for (;;) {
        struct found f = {0};
        ak_clock_start(&clock, &j->w);
        if (q(j, &f)) return -1;
        if (!f.why[0]) return 0;
        enum ak_doubt d = ak_clock_doubt(&clock, j, f.excess_us);
        if (d != AK_DOUBT_AGAIN) return d == AK_DOUBT_BUSY ? -1 : ak_judge_say(j, v, "%s", f.why);
    }
}

int ak_bench_believe(struct ak_judge *j) {
    return ask(j, works, AK_VERDICT_REFUSED) || ask(j, shares, AK_VERDICT_CLOCK_MISMATCH) || ask(j, others, AK_VERDICT_REFUSED) ? -1 : 0;
}
