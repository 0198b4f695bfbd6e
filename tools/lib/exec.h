/* The executor: walks a graph and for each group or node takes, in this order, the kernel it was
 * given, the opponent (kernels/vendor), the reference.
 *
 * A plan of steps is made once: which nodes each step covers, where its values lie (one arena,
 * by liveness), which outputs are views. Running it allocates nothing but weights that are made
 * when needed and what kernels pack.
 *
 *     struct ak_weights *w = ak_weights_new(&g, 0);
 *     struct ak_exec_options opt = {.backend = AK_BACKEND_REFERENCE, .weights = w};
 *     struct ak_exec *x = ak_exec_new(&g, &opt, &err);
 *     if (!x || ak_exec_run(x, inputs, outputs, NULL, &err)) ...
 */
#ifndef AK_EXEC_H
#define AK_EXEC_H

#include "graph.h"
#include "group.h"
#include "kernel.h"

enum ak_backend { AK_BACKEND_REFERENCE, AK_BACKEND_VENDOR };

/* Weights of a graph: mapped from their files, generated, or inline. Shared by executors of one
 * graph. A cap (0: none) drops the least recently used ones above it, but none that was asked
 * for since the last tick. */
struct ak_weights;
struct ak_weights *ak_weights_new(const struct ak_graph *g, size_t cap_bytes);
void ak_weights_free(struct ak_weights *w);
/* The tensor of a FILE, RANDOM or INLINE value. Its data stays until another get after a tick. */
int ak_weights_get(struct ak_weights *w, int value, struct ak_tensor *t, struct ak_err *err);
void ak_weights_tick(struct ak_weights *w);
size_t ak_weights_peak(const struct ak_weights *w);     /* bytes resident at the most */
size_t ak_weights_total(const struct ak_graph *g); /* bytes of all FILE and RANDOM storages */

struct ak_exec_options {
    enum ak_backend backend; /* for what no given kernel covers */
    const struct ak_group *groups;
    size_t ngroups;
    const char *vendor_dir;     /* build/lib/vendor; with AK_BACKEND_VENDOR */
    struct ak_weights *weights; /* borrowed; shared by executors of one graph */
    size_t packed_cap;          /* bytes of packed weights to keep between runs; what does not fit is packed anew each run */
    bool verbose;               /* name the ops that the opponent lacks */
};

struct ak_exec;

/* The graph and the groups must outlive it. Groups must be disjoint and convex (no path leaves
 * and re-enters). A group takes its kernel, the opponent of its type (AK_BACKEND_VENDOR), or, where
 * they say AK_UNSUPPORTED, its nodes one by one, with one warning if it named a kernel. */
struct ak_exec *ak_exec_new(const struct ak_graph *g, const struct ak_exec_options *opt, struct ak_err *err);
void ak_exec_free(struct ak_exec *x);

size_t ak_exec_nsteps(const struct ak_exec *x);
struct ak_step_info {
    const char *what;  /* kernel type or op name */
    const char *by;    /* "kernel", "vendor", "reference" */
    int group;         /* index into opt->groups or -1 */
    int node;          /* the first node it covers */
    size_t unit;       /* groups and nodes in order: executors given the same groups agree on it */
    size_t calls;      /* how often it has run */
    int threads;       /* as set, 0 for all */
    double prepare_us; /* time the last ak_prepare took; 0 if there is nothing to pack */
};
struct ak_step_info ak_exec_step_info(const struct ak_exec *x, size_t step);
size_t ak_exec_nunits(const struct ak_exec *x);

/* One run over inputs (in graph order; row-major unless the graph says otherwise); outputs point
 * into the executor's memory (or the weights') until the next run. step_us, if not NULL, receives
 * the wall time of every step. */
int ak_exec_run(struct ak_exec *x, const struct ak_tensor *inputs, struct ak_tensor *outputs, double *step_us,
                struct ak_err *err);
/* One step alone, for lock-step comparison of several executors; steps in order, each as often as
 * wanted. *us, if not NULL, is its wall time without fetching weights and packing. Outputs are
 * ak_exec_value of the graph's outputs. */
int ak_exec_begin(struct ak_exec *x, const struct ak_tensor *inputs, struct ak_err *err);
int ak_exec_step(struct ak_exec *x, size_t step, double *us, struct ak_err *err);
/* How many threads OpenMP shall have while a step runs, 0 for all. */
void ak_exec_set_threads(struct ak_exec *x, size_t step, int threads);
/* The tensor of a value as it now is; data is NULL where it is not live. */
struct ak_tensor ak_exec_value(const struct ak_exec *x, int value);

/* Copies elements between tensors of one shape and dtype, any strides; uses all cores. */
void ak_tensor_assign(const struct ak_tensor *to, const struct ak_tensor *from);

/* Bytes at the peak: activations with scratch, packed weights. */
void ak_exec_memory(const struct ak_exec *x, size_t *activations, size_t *packed);

#endif
