/* The inside of an executor: what exec_plan.c makes and exec.c runs. */
#ifndef AK_EXEC_PLAN_H
#define AK_EXEC_PLAN_H

#include "exec.h"
#include "vendor.h"

struct ak_step {
    const char *what, *by;
    int group, node;
    size_t unit, calls;
    int threads;
    double prepare_us;
    /* a kernel's call; call.args points to args, those to dl, those to t */
    const struct ak_kernel *kernel; /* NULL: node through the reference */
    struct ak_call call;
    struct ak_needs needs;
    struct ak_arg *args;
    DLTensor *dl;
    struct ak_tensor *t;
    int *roots; /* per argument: the value whose storage it lies in, or -1 */
    struct ak_step_copy {
        size_t arg;
        int value, buffer;
    } *copies; /* arguments that want a row-major copy */
    size_t ncopies;
    void *packed;
    bool keeps_packed;
    /* the storages it reads and writes, each once: values, all of them roots */
    int *reads, *writes;
    size_t nreads, nwrites;
    int *unnamed; /* reference: per output of the op the buffer of one nobody named, or -1 */
};

struct ak_buffer { /* memory of a storage from its first step to its last */
    int value;     /* -1: an output nobody named */
    size_t bytes, first, last, offset;
};

struct ak_exec {
    const struct ak_graph *g;
    struct ak_exec_options opt;
    struct ak_vendor *vendor;
    struct ak_kernel *kernels; /* of groups, by group */
    struct ak_step *steps;
    size_t nsteps, cap_steps, nunits;
    struct ak_buffer *buffers;
    size_t nbuffers, cap_buffers;
    int *buffer_of; /* by value: index into buffers of a root, or -1 */
    int *root;      /* by value */
    char *memory, *scratch;
    size_t memory_bytes, scratch_bytes;
    size_t packed_bytes, packed_peak; /* kept now; at the most */
    void *loose;                      /* the packed buffer of the one step that may not keep it */
    size_t loose_step, loose_cap;
    void **base;               /* by root value: where its storage now is */
    struct ak_tensor *tensors; /* by value, data filled in for the running step */
    void **input_copy;         /* by input, where the caller's layout is not the graph's */
    size_t done;               /* steps run since begin */
    struct ak_arena arena, scratch_arena;
};

int ak_exec_plan(struct ak_exec *x, struct ak_err *err);

#endif
