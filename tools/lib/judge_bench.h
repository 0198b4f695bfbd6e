/* Inside the timing of a judge. */
#ifndef AK_JUDGE_BENCH_H
#define AK_JUDGE_BENCH_H

#include "judge_case.h"

struct ak_bench {
    struct ak_place place;
    struct ak_image *images; /* by set */
    bool has[AK_WORKER_SLOTS];
    struct ak_needs needs[AK_WORKER_SLOTS];
    size_t calls, rounds;       /* calls in a sample */
    double us[AK_WORKER_SLOTS]; /* the plan's times, taken before the candidate was there */
    uint32_t threads;           /* the opponent's: 1, or 0 for all, whichever is faster */
    size_t scratch_at, packed_at[AK_WORKER_SLOTS];
    uint64_t seed, shuffles;
    uint32_t next; /* set */
    double *samples[AK_WORKER_SLOTS];
    size_t n;
    double prepare_us;
    struct ak_want want; /* of the set that was last looked at */
    uint32_t looked;
};

/* The next sample of a slot, on the next sets. */
struct ak_worker_step ak_bench_step(struct ak_bench *b, enum ak_slot slot, size_t calls);
/* A command that is a part of timing; -1 if it led to a verdict. */
int ak_bench_ask(struct ak_judge *j, struct ak_command *c, struct ak_reply *r, double calls, const char *doing);
/* Microseconds of a call: the least of a few samples. */
int ak_bench_estimate(struct ak_judge *j, enum ak_slot slot, double *best);
struct ak_interval ak_bench_ratio(const struct ak_bench *b, enum ak_slot slot);
/* Whether the timing can be believed: 0, or -1 with a verdict. */
int ak_bench_believe(struct ak_judge *j);

#endif
