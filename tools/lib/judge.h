/* The judge: is a kernel right, and how fast? ak-check, ak-bench and ak-judge are its front ends.
 *
 * The candidate is loaded by a worker process (worker.h) that is not trusted. This side owns the
 * seeds, the inputs, truth, the limits and the record; the worker has but the arguments of calls,
 * in memory that both map, and small commands.
 *
 *     struct ak_judge j;
 *     if (ak_judge_start(&j, &spec, &options, &err)) ...
 *     ak_judge_check(&j, NULL);           j.verdict says what was found, j.where where
 *     if (j.verdict == AK_VERDICT_PASS) ak_judge_bench(&j);
 *     ak_judge_stop(&j);
 *
 * What is allowed. Truth is the case's graph in double. Beside it the graph is run with every input
 * a little off: once all of an argument by the same relative step d, then each element by a random
 * one of that size, a few times. How far outputs move at most, as the root mean square D over a row, is what a rounding
 * of the inputs does to them, whatever the op: sums that cancel, exponents of large numbers, means
 * that are subtracted. With S the root mean square of truth over the row, element i may be off by
 *
 *     tol * (D + d*S) * (1 + |truth_i| / S)
 *
 * tol is the case's (rules/kernels.lua, with its reason). The step d is u*sqrt(L), with u = 2^-24 and
 * L the longest reduction in the graph: a sum of L terms in float, one after the other, is off by as
 * much when rounding errors are random (Higham, Accuracy and Stability of Numerical Algorithms, 4.2),
 * blocked ones by less; d*S is for errors that nothing random brings out, such as those of a sum of
 * equal numbers, which have one sign. Storage in 16 bits adds half of its own u to d, since results in
 * between may be stored so. Both S and D shrink with the outputs: zeros never pass for small numbers,
 * and inputs rounded to 10 bits (TF32) are caught up to L = 11,000 and beyond. NaN and infinities must
 * be met by their like in the same place. Where more runs of truth would take too long D is d*S; where one
 * takes too long rows drawn anew are held against it, and every element against the opponent's output,
 * from which it may be off by twice as much.
 */
#ifndef AK_JUDGE_H
#define AK_JUDGE_H

#include <stdbool.h>

#include "ceilings.h"
#include "kernel.h"
#include "spec.h"
#include "stats.h"
#include "worker.h"

/* Part of the name of a trial: a new number measures everything anew. */
#define AK_JUDGE_VERSION 6

/* name of the verdict, and what it means */
#define AK_VERDICTS(X)                                                                                                 \
    X(PASS, "pass")                                                                                                    \
    X(WRONG, "wrong")             /* an output, or what must not be written was */                                     \
    X(CRASH, "crash")             /* died by a signal of its own, exited, or said AK_FAILED */                         \
    X(HANG, "hang")               /* no answer in its time */                                                          \
    X(COMPILE_FAIL, "compile_fail")                                                                                    \
    X(UNSUPPORTED, "unsupported") /* at the spec's own shape */                                                        \
    X(LOAD_FAIL, "load_fail")                                                                                          \
    X(CLOCK_MISMATCH, "clock_mismatch") /* its word on times is not borne out by the parent's clock */                 \
    X(REFUSED, "refused")         /* a case could not be run here, so nothing is proven */

enum ak_verdict {
#define X(id, name) AK_VERDICT_##id,
    AK_VERDICTS(X)
#undef X
};
const char *ak_verdict_name(enum ak_verdict v);

struct ak_stage {
    const char *name;
    size_t cases, passed, unsupported;
};
enum { AK_NSTAGES = 5 };

/* The first thing that was wrong. */
struct ak_where {
    char stage[16], what[32]; /* what: "wrong value", "input modified", "wrote outside", ... */
    char case_name[128], family[16], arg[32], index[96];
    double got, want, allowed;
    bool element;      /* index, got, want and allowed are of an element, the first */
    bool opponents;    /* want is the opponent's */
    int64_t wrong, of; /* elements of that argument */
};

struct ak_timing {
    double latency_us, low_us, high_us, prepare_us;
    struct ak_interval incumbent, opponent; /* ratios, theirs to the candidate's: n 0 where there is none */
    size_t calls;                           /* in a sample */
    int opponent_threads;
};

struct ak_judge_options {
    const char *candidate, *incumbent, *opponent; /* paths; incumbent and opponent may be NULL */
    uint64_t seed;
    double timeout_s;  /* for one call, beside what its size asks for */
    double sample_us;  /* shortest sample */
    double budget_ms;  /* for timing, more or less */
};

struct ak_judge {
    const struct ak_spec *spec;
    struct ak_judge_options opt;
    struct ak_worker w;

    enum ak_verdict verdict;
    char why[512];
    bool loaded; /* the candidate's code has run */
    bool killed; /* the worker was killed from outside: no verdict, try again */
    struct ak_stage stages[AK_NSTAGES];
    struct ak_where where;
    struct ak_timing timing;

    size_t mb_before;   /* memory and threads of the worker without the candidate */
    int threads_before;
    struct ak_truth *truths; /* by graph; made when first asked for */
    struct ak_bench *bench;  /* what will be timed, planned before the candidate is loaded */
    double own_us;           /* the slower of opponent and incumbent at the own shape; an estimate where there is neither */
    bool heavy;              /* truth at the own shape takes long: rows of it, or few runs */
    struct ak_kernel own;    /* the opponent in this process, where it stands in for truth */
};

/* Starts the worker, plans the timing by the incumbent and the opponent, and only then loads the
 * candidate. -1 if the judge itself cannot work; a candidate that does not load is a verdict. */
int ak_judge_start(struct ak_judge *j, const struct ak_spec *spec, const struct ak_judge_options *opt, struct ak_err *err);
void ak_judge_stop(struct ak_judge *j);
/* All stages, or the one named. Stops at the first thing that is wrong: then -1, and verdict, why and where are set. */
int ak_judge_check(struct ak_judge *j, const char *stage);
/* Times candidate, incumbent and opponent in turn at the own shape. */
int ak_judge_bench(struct ak_judge *j);
bool ak_stage_known(const char *stage);

/* ---- a whole trial ---- */

struct ak_trial_options {
    struct ak_judge_options judge; /* candidate is the kernel */
    const char *hash, *incumbent_hash, *opponent_name; /* for the record */
    const char *cc_log;                                /* what the compiler said, or NULL */
    const struct ak_ceilings *ceilings;                /* or NULL */
    bool check, bench;
    const char *stage; /* only that one, or NULL */
};
/* facts.json of it (format "ak-facts", version 1), NULL on error; caller deletes. */
cJSON *ak_judge_trial(const struct ak_spec *spec, const struct ak_trial_options *opt, struct ak_err *err);
/* What it says, for people: all of it, or in a line. */
void ak_facts_print(FILE *f, const cJSON *facts);
void ak_facts_print_line(FILE *f, const cJSON *facts);
bool ak_facts_pass(const cJSON *facts);
/* As JSON to path, or for people to standard output where path is NULL. */
int ak_facts_write(const cJSON *facts, const char *path, struct ak_err *err);

#endif
