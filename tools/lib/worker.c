/* The worker's side. The map is at the same address for all slots; scratch is shared, too, so that
 * where pages happen to lie favours nobody. */
#include "worker_side.h"

#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"
#include "kernel.h"
#include "mem.h"
#include "option.h"

struct set {
    struct ak_arg args[AK_WORKER_ARGS];
    DLTensor tensors[AK_WORKER_ARGS];
    struct ak_tensor t[AK_WORKER_ARGS];
};

struct slot {
    struct ak_kernel kernel;
    uint64_t scratch_at, packed_at, packed_step;
};

static char *memory;
static struct slot slots[AK_WORKER_SLOTS];
static struct ak_worker_call bound;
static struct ak_attr attrs[AK_WORKER_ARGS];
static struct set *sets;

/* ---- calls ---- */

static void make_attrs(void) {
    for (uint32_t i = 0; i < bound.nattrs; i++) {
        const struct ak_worker_attr *a = &bound.attrs[i];
        attrs[i] = (struct ak_attr){.name = a->name, .type = a->type, .n = a->n};
        switch (a->type) {
        case AK_ATTR_REAL: attrs[i].v.f = a->f; break;
        case AK_ATTR_ENUM: attrs[i].v.s = a->s; break;
        case AK_ATTR_INTS: attrs[i].v.ints = a->ints; break;
        default: attrs[i].v.i = a->ints[0];
        }
    }
}

static void bind_call(const struct ak_worker_call *call) {
    bound = *call;
    make_attrs();
    free(sets);
    sets = ak_calloc(bound.nsets, sizeof *sets);
    for (uint32_t s = 0; s < bound.nsets; s++)
        for (uint32_t i = 0; i < bound.nargs; i++) {
            struct set *set = &sets[s];
            set->args[i].role = bound.args[i].role;
            if (set->args[i].role == AK_ROLE_ABSENT) continue;
            set->t[i] = bound.args[i].t;
            set->t[i].data = memory + bound.args[i].at + s * bound.step;
            set->tensors[i] = ak_dltensor(&set->t[i]);
            set->args[i].tensor = &set->tensors[i];
        }
}

static struct ak_call call_of(const struct slot *slot, uint32_t set) {
    return (struct ak_call){.abi = AK_KERNEL_ABI,
                            .type = bound.type,
                            .nargs = bound.nargs,
                            .args = sets[set].args,
                            .nattrs = bound.nattrs,
                            .attrs = attrs,
                            .scratch = memory + slot->scratch_at,
                            .packed = memory + slot->packed_at + set * slot->packed_step};
}

/* Data is NULL in a query, as the executor has it. */
static int query(const struct slot *slot, struct ak_needs *needs) {
    struct ak_arg args[AK_WORKER_ARGS];
    DLTensor tensors[AK_WORKER_ARGS];
    struct ak_call call = call_of(slot, 0);
    for (uint32_t i = 0; i < bound.nargs; i++) {
        args[i] = call.args[i];
        if (!args[i].tensor) continue;
        tensors[i] = *args[i].tensor;
        tensors[i].data = NULL;
        args[i].tensor = &tensors[i];
    }
    call.args = args;
    call.scratch = call.packed = NULL;
    return slot->kernel.query(&call, needs);
}

static int prepare(const struct slot *slot, const struct ak_command *c, double *us) {
    int status = AK_OK;
    double from = ak_now_us();
    for (uint32_t i = 0; slot->kernel.prepare && i < c->nsets && status == AK_OK; i++) {
        struct ak_call call = call_of(slot, c->set + i);
        status = slot->kernel.prepare(&call);
    }
    *us = ak_now_us() - from;
    return status;
}

static int launch(const struct slot *slot, uint32_t set) {
    struct ak_call call = call_of(slot, set);
    return slot->kernel.launch(&call);
}

static void let_threads_sleep(void) {
    double until = ak_now_us() + AK_WORKER_PAUSE_US;
    while (ak_now_us() < until)
        continue;
}

static int time_steps(const struct ak_command *c, double *us) {
    static int all; /* a kernel may have changed what OpenMP says */
    if (!all) all = omp_get_max_threads();
    int status = AK_OK;
    for (uint32_t i = 0; i < c->nsteps && status == AK_OK; i++) {
        const struct ak_worker_step *s = &c->steps[i];
        const struct slot *slot = &slots[s->slot];
        uint32_t set = s->set;
        omp_set_num_threads(s->threads ? (int)s->threads : all);
        let_threads_sleep();
        double from = ak_now_us();
        for (uint32_t k = 0; k < s->calls && status == AK_OK; k++) {
            status = launch(slot, set);
            if (++set == bound.nsets) set = 0;
        }
        us[i] = ak_now_us() - from;
    }
    omp_set_num_threads(all);
    return status;
}

static void spoil(void) {
    for (uint32_t s = 0; s < bound.nsets; s++)
        for (uint32_t i = 0; i < bound.nargs; i++) {
            const struct ak_tensor *t = &sets[s].t[i];
            if (sets[s].args[i].role == AK_ROLE_OUTPUT) memset((char *)t->data, 0x5b, (size_t)ak_extent(t) * ak_dtype_size(t->dtype));
        }
}

static void load(struct slot *slot, const char *path, struct ak_reply *r) {
    struct ak_err err = {0};
    if (ak_kernel_open(&slot->kernel, path, &err) == 0) return;
    r->status = AK_FAILED;
    snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, err.msg);
}

static void obey(const struct ak_command *c, struct ak_reply *r) {
    struct slot *slot = &slots[c->slot];
    switch (c->kind) {
    case AK_DO_LOAD: load(slot, c->path, r); break;
    case AK_DO_BIND: bind_call(&c->call); break;
    case AK_DO_QUERY: r->status = query(slot, &r->needs); break;
    case AK_DO_GIVE: slot->scratch_at = c->scratch_at, slot->packed_at = c->packed_at, slot->packed_step = c->packed_step; break;
    case AK_DO_PREPARE: r->status = prepare(slot, c, r->us); break;
    case AK_DO_LAUNCH: r->status = launch(slot, c->set); break;
    case AK_DO_SPOIL: spoil(); break;
    case AK_DO_TIME: r->status = time_steps(c, r->us); break;
    }
}

/* ---- the process ---- */

static void limit(int what, rlim_t value) {
    struct rlimit l = {value, value};
    setrlimit(what, &l);
}

static void confine(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    close_range(AK_WORKER_MEM_FD + 1, ~0u, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, 64);
    limit(RLIMIT_CPU, 3600);
#ifndef __SANITIZE_ADDRESS__ /* its shadow is larger than any limit */
    /* what libraries keep a thread (stacks, OpenBLAS's buffers) is beside what a kernel may take */
    rlim_t own = ((rlim_t)512 << 20) + ((rlim_t)64 << 20) * (rlim_t)sysconf(_SC_NPROCESSORS_ONLN);
    limit(RLIMIT_DATA, own);
    limit(RLIMIT_AS, AK_WORKER_SPAN + 4 * own);
#endif
    ak_worker_jail();
}

void ak_worker_main(int argc, char **argv) {
    if (argc != 3 || strcmp(argv[1], AK_WORKER_FLAG) != 0) return;
    ak_tool = "worker";
    confine((pid_t)strtol(argv[2], NULL, 10));
    /* Far from where libraries go: a kernel that were loaded beyond it, far from libm, was seen to run 15%
     * slower than its twin on this side. */
    memory = mmap((void *)AK_WORKER_AT, AK_WORKER_SPAN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, AK_WORKER_MEM_FD, 0);
    if (memory == MAP_FAILED) _exit(AK_EXIT_IO);
    static struct ak_command c;
    static struct ak_reply r;
    while (recv(AK_WORKER_SOCK_FD, &c, sizeof c, 0) == (ssize_t)sizeof c) {
        memset(&r, 0, sizeof r);
        obey(&c, &r);
        if (send(AK_WORKER_SOCK_FD, &r, sizeof r, MSG_NOSIGNAL) != (ssize_t)sizeof r) break;
    }
    _exit(0);
}
