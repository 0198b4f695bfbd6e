/* Shared by verify.c and verify_lockstep.c. */
#ifndef AK_VERIFY_RUN_H
#define AK_VERIFY_RUN_H

#include "verify.h"

struct ak_verify_run {
    const struct ak_graph *g;
    struct ak_kept_plan *plan;
    const struct ak_tensor *inputs;
    const struct ak_verify_options *opt;
    struct ak_verify_result *r;
    struct ak_weights *weights;
};

struct ak_exec *ak_verify_exec(struct ak_verify_run *v, enum ak_backend backend, const struct ak_group *groups, struct ak_err *err);
double ak_output_tol(const struct ak_tensor *want, double scale, double err_base);
void ak_verify_outputs(struct ak_verify_run *v, const struct ak_tensor *truth, const struct ak_tensor *base, const struct ak_tensor *opt);
void ak_verify_count(struct ak_verify_run *v, struct ak_exec *opt);
/* Sets r->match to false; the first reason stays. */
void ak_verify_reason(struct ak_verify_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct ak_verify_step *ak_verify_row(struct ak_verify_run *v, const struct ak_exec *opt, size_t step);
long ak_verify_preempted(void); /* of this process, so far */
void ak_verify_add_base(struct ak_verify_step *row, const struct ak_exec *base, size_t step, double us);
int ak_verify_lockstep(struct ak_verify_run *v, const struct ak_group *plain, struct ak_err *err);

/* Threads for the opponents: base is tuned, opt follows it. In lock-step a step at a time, as its first run. */
int ak_verify_tune(struct ak_verify_run *v, struct ak_exec *base, struct ak_exec *opt, struct ak_err *err);
int ak_verify_tune_step(struct ak_exec *base, size_t step, struct ak_err *err);
int ak_verify_threads(const struct ak_exec *base, const struct ak_exec *opt, size_t step);

#endif
