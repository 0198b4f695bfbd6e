/* A spec's folder: its rounds of trials, what was seen of each, and what follows from it.
 *
 *     SPEC/rounds/0001        "ak-round 1 incumbent HASH|- key KEY env ENV", then a trial's hash a line
 *     SPEC/rounds/0001.ms     what building and judging it took
 *     SPEC/trials/HASH/       kernel.c, knobs.json, env, cc.log, kernel.so (winners), facts.json
 *     SPEC/kernel.c           the incumbent's source, with the ranges its user gave it
 *     SPEC/starter            the hash of the starter that kernel.c took its ranges from
 *     SPEC/best.so, best.hash the incumbent built, and its name
 *
 * Facts are stored, decisions are recomputed: whoever wants to know the incumbent reads the facts
 * and asks rules/decide.lua.
 */
#ifndef AK_TRIALS_H
#define AK_TRIALS_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "knob.h"
#include "rules.h"

struct ak_trial {
    char hash[33];
    int round;    /* index into rounds */
    cJSON *facts; /* NULL while it is not judged */
    cJSON *knobs; /* knobs.json: {"base", "values", "why", "by": "start|search|hand"} */
    char *decision, *why; /* ak_trials_decide: "keep", "revert", "start", ... */
};

struct ak_round {
    char name[256];     /* of its file in rounds/ */
    char incumbent[33]; /* "-" in the first */
    char key[33];       /* what its budget is counted against */
    char env[33];       /* toolchain, device, spec and judge that its facts hold for */
    size_t first, n;    /* its trials */
    double wall_s;      /* what building and judging it took, 0 if a kill kept that from being written */
};

struct ak_trials {
    char *dir;
    char env[33];
    size_t nfiles; /* rounds on disk, those of other environments too */
    struct ak_round *rounds;
    size_t nrounds, cap_rounds;
    struct ak_trial *trials; /* in the order of the rounds */
    size_t n, cap;
    struct ak_trial *others; /* of other environments: for the log, undecided */
    size_t nothers, cap_others;
    int incumbent; /* ak_trials_decide: index of the trial, or -1 */
};

/* The rounds whose environment is env (NULL: that of the last round). A file that is not what it
 * should be is AK_EXIT_INPUT with its path; a folder without rounds is empty. */
int ak_trials_read(struct ak_trials *t, const char *spec_dir, const char *env, struct ak_err *err);
void ak_trials_release(struct ak_trials *t);
struct ak_trial *ak_trials_find(struct ak_trials *t, const char *hash);
/* The last round, if it has trials that are not judged, else NULL. */
const struct ak_round *ak_trials_pending(const struct ak_trials *t);

int ak_trials_decide(struct ak_trials *t, struct ak_rules *decide, struct ak_err *err);

/* Writes a new round and says its name; its trials' folders are there already. */
int ak_trials_add_round(struct ak_trials *t, const char *incumbent, const char *key, const char *const *hashes, size_t n,
                        char name[static 32], struct ak_err *err);

/* Brings best.so and best.hash to the incumbent, and kernel.c too unless it is a text that was
 * never tried; ranges of knobs that kernel.c has are kept. Deletes the .so of everything else.
 * 1 if the incumbent's .so is gone and has to be built before this can be done. */
int ak_trials_sync(const struct ak_trials *t, struct ak_err *err);

/* The text of the kernel that searches of this type begin from; caller frees. */
char *ak_starter_read(const char *type, struct ak_err *err);
/* Ranges of knobs that were edited in the starter since kernel.c took them reach kernel.c, where it is
 * the starter with other values. */
int ak_trials_take_ranges(const struct ak_trials *t, const char *starter, struct ak_err *err);

/* The name of a trial: a hash of the source without its comments, and of the environment. */
void ak_trial_hash(const char *source, const char *env, char hex[static 33]);
/* What a budget is counted against: the strategy's text and the knobs with their ranges, so that an
 * edit of either gives its new candidates a budget of their own. */
void ak_search_key(const char *strategy, const struct ak_knobs *knobs, char hex[static 33]);
/* The hash of a text alone. */
void ak_text_hash(const char *text, char hex[static 33]);
/* All that a trial's facts depend on but its source, a fact a line: build is the path of a text about
 * flags and compiler. NULL on error; caller frees. */
char *ak_trial_env(const char *spec_dir, const char *build, struct ak_err *err);

/* The path SPEC/trials/HASH/name; caller frees. */
char *ak_trial_path(const struct ak_trials *t, const char *hash, const char *name);

#endif
