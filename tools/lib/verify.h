/* Whole-model verification: the model's outputs with our kernels against truth, held to what the
 * opponents' own kernels achieve, and both timed in turn. */
#ifndef AK_VERIFY_H
#define AK_VERIFY_H

#include "exec.h"

/* ---- one output against another ---- */

struct ak_diff {
    double scale; /* the largest finite magnitude of what was wanted */
    double err;   /* the largest difference; infinity where a NaN or infinity is not met by its like */
    int64_t at;   /* where it is: the element's number in logical order */
};
/* Shapes and dtypes must be equal. Infinities and NaN match their like in the same place only. */
struct ak_diff ak_diff_of(const struct ak_tensor *got, const struct ak_tensor *want);
/* A copy in row-major order; data is the caller's to free. */
struct ak_tensor ak_tensor_copy(const struct ak_tensor *t);

/* ---- inputs ---- */

/* Draws every graph input from streams of seed: floats standard normal, integers in the value's
 * [lo, hi). Data is freed with ak_inputs_free. */
struct ak_tensor *ak_inputs_draw(const struct ak_graph *g, uint64_t seed);
void ak_inputs_free(const struct ak_graph *g, struct ak_tensor *inputs);

/* ---- the kept kernels of a plan ---- */

struct ak_kept { /* a spec and the kernel that was kept for it */
    char *spec, *type, *kernel; /* kernel: path of best.so, or NULL: not replaced */
    char *why;                  /* where kernel is NULL */
    size_t sites;               /* groups of the plan that are this spec */
    /* filled in by a verification */
    size_t ran, calls; /* groups that ran the kernel; how often altogether */
    bool blamed;
    double growth; /* lock-step: how much err/tol grew at most over one of its groups */
};
struct ak_kept_plan {
    struct ak_group *groups; /* of all specs; spec and kernel set */
    int *spec_of;            /* by group: index into specs */
    size_t ngroups;
    struct ak_kept *specs;
    size_t nspecs;
    struct ak_arena arena;
};
/* Reads plan.json and looks for specs_dir/NAME/best.so. A kernel whose own facts say it is slower
 * than the opponent is not taken, unless all is true. */
int ak_kept_read(struct ak_kept_plan *p, const struct ak_graph *g, const char *plan_path, const char *specs_dir, bool all,
                 struct ak_err *err);
void ak_kept_release(struct ak_kept_plan *p);

/* ---- verification ---- */

struct ak_verify_options {
    const char *vendor_dir;
    size_t memory;     /* bytes; weights beyond a quarter of it are verified in lock-step */
    int64_t pairs;     /* timing pairs wanted */
    double budget_s;   /* for timing */
    uint64_t seed;     /* recorded */
    bool quiet, verbose;
    bool all;      /* kernels stay that are slower in the model */
    bool lockstep; /* even if the weights would fit */
};
struct ak_verify_output {
    const char *name;
    double scale, err_base, err_opt, tol;
    bool ok;
};
struct ak_verify_step { /* steps of one kind, summed over the model */
    const char *what, *by; /* by: in the optimised model */
    const char *spec;      /* or NULL */
    bool group;
    double reference_us; /* what of baseline_us the reference took, for want of an opponent */
    double baseline_us, optimized_us;
    size_t count;
};
struct ak_verify_result {
    bool match, timed, lockstep;
    struct ak_verify_output *outputs; /* as many as the graph has */
    double *base_us, *opt_us;         /* by pair */
    size_t npairs;
    long preempted; /* how often another process took a core from us while timing */
    struct ak_verify_step *steps;
    size_t nsteps, cap_steps;
    double prepare_us; /* of the kept kernels, all sites */
    char *reason;      /* why there is no match, or NULL */
};
int ak_verify(const struct ak_graph *g, struct ak_kept_plan *plan, const struct ak_tensor *inputs,
              const struct ak_verify_options *opt, struct ak_verify_result *r, struct ak_err *err);
void ak_verify_release(struct ak_verify_result *r);
/* The part of the baseline's time that the reference took: what no opponent does makes the
 * baseline slower than it need be. */
double ak_verify_reference_share(const struct ak_verify_result *r);
/* verify.json (format "ak-verify", version 1); caller deletes. */
cJSON *ak_verify_to_json(const struct ak_verify_result *r, const struct ak_graph *g, const struct ak_kept_plan *plan,
                         const struct ak_verify_options *opt);

#endif
