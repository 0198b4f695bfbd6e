/* The executor: walks a graph and for each group or node takes, in this order, the best kernel
 * it was given, the opponent (kernels/vendor), the reference.
 *
 * A plan of steps is made once: which nodes each step covers, where its values lie (one arena,
 * by liveness), which outputs are views. Running it allocates nothing but weights that are made
 * when needed.
 */
#ifndef AK_EXEC_H
#define AK_EXEC_H

#include "graph.h"
#include "group.h"
#include "kernel.h"

enum ak_backend { AK_BACKEND_REFERENCE, AK_BACKEND_VENDOR };

/* Weights of a graph: mapped from their files, generated, or inline. Shared by executors of one
 * graph. A cap drops the least recently used generated weights above it. */
struct ak_weights;
struct ak_weights *ak_weights_new(const struct ak_graph *g, size_t cap_bytes);
void ak_weights_free(struct ak_weights *w);
int ak_weights_get(struct ak_weights *w, int value, struct ak_tensor *t, struct ak_err *err);

struct ak_exec_options {
    enum ak_backend backend; /* for what no group covers */
    const struct ak_group *groups;
    size_t ngroups;
    const char *vendor_dir;     /* build/lib/vendor */
    struct ak_weights *weights; /* borrowed; shared by executors of one graph */
};

struct ak_exec;

/* The graph and the groups must outlive it. Groups must be disjoint and convex (no path leaves
 * and re-enters); a group whose kernel says AK_UNSUPPORTED falls back to its nodes, with one warning. */
struct ak_exec *ak_exec_new(const struct ak_graph *g, const struct ak_exec_options *opt, struct ak_err *err);
void ak_exec_free(struct ak_exec *x);

size_t ak_exec_nsteps(const struct ak_exec *x);
struct ak_step_info {
    const char *what;   /* kernel type or op name */
    const char *by;     /* "kernel", "vendor", "reference", "view" */
    int group;          /* index into opt->groups or -1 */
    int node;           /* the first node it covers */
    size_t calls;       /* how often it has run */
    double prepare_us;  /* time ak_prepare took */
};
struct ak_step_info ak_exec_step_info(const struct ak_exec *x, size_t step);

/* One run over inputs (in graph order); outputs point into the executor's memory until the next
 * run. step_us, if not NULL, receives the wall time of every step. */
int ak_exec_run(struct ak_exec *x, const struct ak_tensor *inputs, struct ak_tensor *outputs, double *step_us,
                struct ak_err *err);
/* One step alone, for lock-step comparison of several executors; steps in order. */
int ak_exec_begin(struct ak_exec *x, const struct ak_tensor *inputs, struct ak_err *err);
int ak_exec_step(struct ak_exec *x, size_t step, struct ak_err *err);
/* The tensor of a value as it now is; data is NULL where it is not live. */
struct ak_tensor ak_exec_value(const struct ak_exec *x, int value);

/* Bytes at the peak: activations, weights. */
void ak_exec_memory(const struct ak_exec *x, size_t *activations, size_t *weights);

#endif
