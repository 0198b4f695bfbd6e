#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "rand.h"
#include "stats.h"

static void *own(struct ak_bound *b, size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 256, bytes ? bytes : 1)) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", bytes);
    b->owned = ak_realloc(b->owned, b->nowned + 1, sizeof *b->owned);
    b->owned[b->nowned++] = p;
    return p;
}

/* The storage of an argument: the one of an earlier argument over the same value, or a new one. */
static void *storage(struct ak_bound *b, const struct ak_graph *g, const struct ak_group *group, size_t i, uint64_t seed) {
    int root = ak_value_root(g, group->args[i].value);
    for (size_t j = 0; j < i; j++)
        if (b->t[j].data && ak_value_root(g, group->args[j].value) == root && group->args[i].role != AK_ROLE_OUTPUT) return b->t[j].data;
    const struct ak_tensor *t = &group->args[i].t;
    int64_t n = ak_value_extent(g, root), bytes = n * (int64_t)ak_dtype_size(g->values[root].t.dtype);
    struct ak_tensor flat = ak_tensor_new(t->dtype, 1, &(int64_t){bytes / (int64_t)ak_dtype_size(t->dtype)});
    flat.data = own(b, (size_t)bytes);
    if (ak_dtype_is_float(t->dtype))
        ak_rand_fill_normal(&flat, seed + i, 0, 1);
    else
        memset(flat.data, 0, (size_t)bytes);
    return flat.data;
}

void ak_bound_init(struct ak_bound *b, const struct ak_graph *g, const struct ak_group *group, uint64_t seed) {
    size_t n = group->nargs;
    *b = (struct ak_bound){.args = ak_calloc(n + 1, sizeof *b->args),
                           .tensors = ak_calloc(n + 1, sizeof *b->tensors),
                           .t = ak_calloc(n + 1, sizeof *b->t)};
    for (size_t i = 0; i < n; i++) {
        b->args[i].role = group->args[i].role;
        if (group->args[i].role == AK_ROLE_ABSENT) continue;
        b->t[i] = group->args[i].t;
        b->t[i].data = storage(b, g, group, i, seed);
        b->tensors[i] = ak_dltensor(&b->t[i]);
        b->args[i].tensor = &b->tensors[i];
    }
    b->call = (struct ak_call){.abi = AK_KERNEL_ABI,
                               .type = group->type,
                               .nargs = (uint32_t)n,
                               .args = b->args,
                               .nattrs = (uint32_t)group->nattrs,
                               .attrs = group->attrs};
}

int ak_bound_attach(struct ak_bound *b, const struct ak_kernel *k, struct ak_err *err) {
    struct ak_needs needs = {0};
    int rc = k->query(&b->call, &needs);
    if (rc == AK_UNSUPPORTED) return 1;
    if (rc != AK_OK) return ak_fail(err, AK_EXIT_IO, "'%s' failed its query for %s", k->path, b->call.type);
    b->call.scratch = own(b, needs.scratch_bytes);
    b->call.packed = own(b, needs.packed_bytes);
    if (k->prepare && k->prepare(&b->call) != AK_OK)
        return ak_fail(err, AK_EXIT_IO, "'%s' failed to pack the constants of %s", k->path, b->call.type);
    return 0;
}

void ak_bound_release(struct ak_bound *b) {
    for (size_t i = 0; i < b->nowned; i++)
        free(b->owned[i]);
    free(b->owned);
    free(b->args);
    free(b->tensors);
    free(b->t);
}

double ak_time_us(int (*fn)(void *), void *arg, int runs, double sample_us, double budget_us) {
    double *samples = ak_malloc((size_t)runs * sizeof *samples), start = ak_now_us();
    double t0 = ak_now_us();
    int n = 0, bad = fn(arg);
    double first = ak_now_us() - t0;
    int batch = first < sample_us ? (int)(sample_us / (first > 0.01 ? first : 0.01)) + 1 : 1;
    while (!bad && n < runs && (n < 3 || ak_now_us() - start < budget_us)) {
        t0 = ak_now_us();
        for (int i = 0; i < batch && !bad; i++)
            bad = fn(arg);
        samples[n++] = (ak_now_us() - t0) / batch;
    }
    double median = bad ? -1 : ak_median(samples, (size_t)n);
    free(samples);
    return median;
}
