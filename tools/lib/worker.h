/* The worker: a process that loads kernels and does as it is told, and its parent's hold on it.
 *
 * Both map one memfd; all that a call reads and writes lies in it, at places that the parent
 * chooses. Commands and replies are small and of fixed size, over a socket. A worker never outlives
 * its parent, has its own process group, sees no other descriptors and has limits on memory,
 * processor time and files.
 *
 * A program that starts workers calls ak_worker_main(argc, argv) first: the worker is the same
 * program with another first argument.
 */
#ifndef AK_WORKER_H
#define AK_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ak_kernel.h"
#include "err.h"
#include "tensor.h"

enum { AK_WORKER_SLOTS = 3, AK_WORKER_ARGS = 16, AK_WORKER_STEPS = 64, AK_WORKER_NAME = 64 };
enum ak_slot { AK_CANDIDATE, AK_INCUMBENT, AK_OPPONENT };

enum ak_command_kind {
    AK_DO_LOAD,    /* slot, path */
    AK_DO_BIND,    /* call: what all slots are called with from now on */
    AK_DO_QUERY,   /* slot -> status, needs */
    AK_DO_GIVE,    /* slot, scratch_at, packed_at, packed_step */
    AK_DO_PREPARE, /* slot, set, nsets -> status, us[0] of all together */
    AK_DO_LAUNCH,  /* slot, set -> status */
    AK_DO_SPOIL,   /* overwrites the outputs of all sets */
    AK_DO_TIME     /* steps: each calls a slot n times, on sets from `set` on -> status, us a step */
};

/* Before each step that is timed the worker is alone for so long that OpenMP's other threads fall asleep
 * (host.h: they spin for ten microseconds), as they do in a model beside calls that need none. Kernels
 * whose threads pay only while they are awake were kept, and made models slower. */
enum { AK_WORKER_PAUSE_US = 30 };

/* The most scratch, and the most packed bytes, that a kernel may ask for. */
#define AK_WORKER_MOST ((size_t)8 << 30)

struct ak_worker_call {
    char type[AK_WORKER_NAME];
    uint32_t nargs, nattrs, nsets;
    uint64_t step; /* set i's data lies i*step bytes further on */
    struct ak_worker_arg {
        int32_t role;
        struct ak_tensor t;
        uint64_t at; /* of the storage, in the memory */
    } args[AK_WORKER_ARGS];
    struct ak_worker_attr {
        char name[AK_WORKER_NAME], s[AK_WORKER_NAME];
        int32_t type, n;
        int64_t ints[8]; /* AK_ATTR_INT and BOOL: the first */
        double f;
    } attrs[AK_WORKER_ARGS];
};

struct ak_command {
    uint32_t kind, slot, set, nsets, nsteps;
    uint64_t scratch_at, packed_at, packed_step;
    union {
        char path[4096];
        struct ak_worker_call call;
        struct ak_worker_step {
            uint32_t slot, set, calls, threads; /* threads 0: all there are */
        } steps[AK_WORKER_STEPS];
    };
};

struct ak_reply {
    int32_t status; /* AK_OK, AK_UNSUPPORTED, AK_FAILED, other: what the kernel returned */
    struct ak_needs needs;
    double us[AK_WORKER_STEPS];
    char text[512]; /* AK_DO_LOAD: why not */
};

enum ak_worker_state {
    AK_WORKER_ALIVE,
    AK_WORKER_CRASHED, /* by a signal of its own making, or it exited */
    AK_WORKER_HUNG,
    AK_WORKER_KILLED /* by somebody else */
};

struct ak_worker {
    pid_t pid;
    int sock, mem_fd;
    char *mem; /* the parent's map of it */
    size_t size;
    enum ak_worker_state state;
    char why[128]; /* "died by signal 11 (Segmentation fault)" */
    long peak_kb;  /* once it has ended */
};

void ak_worker_main(int argc, char **argv); /* does not return in a worker */
int ak_worker_start(struct ak_worker *w, struct ak_err *err);
void ak_worker_stop(struct ak_worker *w);
/* Makes the memory at least that large; it may move in this process. -1 if there is not as much. */
int ak_worker_reserve(struct ak_worker *w, size_t bytes, struct ak_err *err);
/* Memory that is its own, in MB, and threads; 0 if it has ended. */
size_t ak_worker_private_mb(const struct ak_worker *w);
int ak_worker_threads(const struct ak_worker *w);
/* 0: a reply. -1: there is none and never will be, state and why say so. */
int ak_worker_do(struct ak_worker *w, const struct ak_command *c, struct ak_reply *r, double limit_s);

#endif
