/* A kernel call over buffers of its own: a group's arguments drawn at random, for timing where
 * only shapes matter. (What decides a verdict is the judge's, in a process of its own.) */
#ifndef AK_CALL_H
#define AK_CALL_H

#include "graph.h"
#include "group.h"
#include "kernel.h"

struct ak_bound {
    struct ak_call call;
    struct ak_arg *args;
    DLTensor *tensors;
    struct ak_tensor *t;  /* the arguments, data set */
    void **owned;         /* storages, scratch, packed */
    size_t nowned;
};

/* Storages for every argument (arguments that view one value share one), filled with standard
 * normal numbers and, for integers, numbers below the smallest dim they could index: 0. */
void ak_bound_init(struct ak_bound *b, const struct ak_graph *g, const struct ak_group *group, uint64_t seed);
/* Asks the kernel what it wants, gives it, and packs the constants: 0, or 1 if it says AK_UNSUPPORTED; -1 on failure. */
int ak_bound_attach(struct ak_bound *b, const struct ak_kernel *k, struct ak_err *err);
void ak_bound_release(struct ak_bound *b);

/* Median microseconds of a call: one warm-up, then `runs` samples of at least sample_us each, ending early
 * (with 3 samples or more) once budget_us is spent. fn returns nonzero on failure, which gives -1. */
double ak_time_us(int (*fn)(void *), void *arg, int runs, double sample_us, double budget_us);

#endif
