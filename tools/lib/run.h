/* A run's folder: its plan and what has been tried of each spec. */
#ifndef AK_RUN_H
#define AK_RUN_H

#include <stdint.h>
#include <stdio.h>

#include "trials.h"

struct ak_run_spec {
    const char *name;     /* borrowed from the plan */
    const cJSON *planned; /* its entry in the plan */
    struct ak_trials trials;
};

struct ak_run {
    char *dir;
    cJSON *plan;
    struct ak_run_spec *specs; /* in the plan's order */
    size_t n;
};

/* The trials that hold for flags and compiler as the file `build` says (NULL: as each spec's last round had them). */
int ak_run_read(struct ak_run *r, const char *dir, const char *build, struct ak_rules *decide, struct ak_err *err);
void ak_run_release(struct ak_run *r);

/* The spec that `name` stands for: its whole name, or a part of one name only. NULL on error. */
struct ak_run_spec *ak_run_find(struct ak_run *r, const char *name, struct ak_err *err);

/* The incumbent's facts, or NULL. */
const cJSON *ak_run_best(const struct ak_run_spec *s);

/* What rank.lua's next() wants to know of the first `top` specs. strategy is the text of strategy.lua. */
cJSON *ak_run_state(const struct ak_run *r, const char *strategy, int64_t top, double budget_s, struct ak_err *err);

/* results.tsv: a row an experiment, in order of time. */
int ak_run_results(const struct ak_run *r, FILE *f, struct ak_err *err);
/* Microseconds a run of the model takes with every kernel that is surely faster than its opponent, by Amdahl's law. */
double ak_run_amdahl_us(const struct ak_run *r);
/* A table for people, and Amdahl's estimate of the whole. */
void ak_run_status(const struct ak_run *r, FILE *f);

#endif
