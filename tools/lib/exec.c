/* Running a plan. A step's tensors get their addresses just before it runs: weights may have moved. */
#include "exec.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "exec_plan.h"
#include "host.h"

static void *aligned(size_t bytes) {
    if (bytes > SIZE_MAX - 256) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", bytes);
    void *p = aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (!p) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", bytes);
    return p;
}

static void place(struct ak_exec *x) {
    x->memory = aligned(x->memory_bytes);
    x->scratch = aligned(x->scratch_bytes);
    for (size_t i = 0; i < x->nbuffers; i++)
        if (x->buffers[i].value >= 0) x->base[x->buffers[i].value] = x->memory + x->buffers[i].offset;
    for (size_t i = 0; i < x->nsteps; i++) {
        struct ak_step *s = &x->steps[i];
        s->keeps_packed = s->needs.packed_bytes <= x->opt.packed_cap - x->packed_bytes;
        if (s->kernel && s->keeps_packed) x->packed_bytes += s->needs.packed_bytes;
    }
    x->packed_peak = x->packed_bytes;
}

struct ak_exec *ak_exec_new(const struct ak_graph *g, const struct ak_exec_options *opt, struct ak_err *err) {
    struct ak_exec *x = ak_calloc(1, sizeof *x);
    x->g = g;
    x->opt = *opt;
    x->kernels = ak_calloc(opt->ngroups + 1, sizeof *x->kernels);
    x->root = ak_malloc((g->nvalues + 1) * sizeof *x->root);
    x->buffer_of = ak_malloc((g->nvalues + 1) * sizeof *x->buffer_of);
    x->base = ak_calloc(g->nvalues + 1, sizeof *x->base);
    x->tensors = ak_calloc(g->nvalues + 1, sizeof *x->tensors);
    x->input_copy = ak_calloc(g->ninputs + 1, sizeof *x->input_copy);
    for (size_t i = 0; i < g->nvalues; i++) {
        x->root[i] = ak_value_root(g, (int)i);
        x->buffer_of[i] = -1;
        x->tensors[i] = g->values[i].t;
    }
    if (opt->backend == AK_BACKEND_VENDOR && !(x->vendor = ak_vendor_open(opt->vendor_dir, err))) goto fail;
    if (ak_exec_plan(x, err)) goto fail;
    place(x);
    return x;
fail:
    ak_exec_free(x);
    return NULL;
}

void ak_exec_free(struct ak_exec *x) {
    if (!x) return;
    for (size_t i = 0; i < x->nsteps; i++)
        free(x->steps[i].packed);
    for (size_t i = 0; i < x->opt.ngroups; i++)
        ak_kernel_close(&x->kernels[i]);
    for (size_t i = 0; i < x->g->ninputs; i++)
        free(x->input_copy[i]);
    ak_vendor_close(x->vendor);
    free(x->loose);
    free(x->memory);
    free(x->scratch);
    free(x->steps);
    free(x->buffers);
    free(x->kernels);
    free(x->root);
    free(x->buffer_of);
    free(x->base);
    free(x->tensors);
    free(x->input_copy);
    ak_arena_release(&x->arena);
    ak_arena_release(&x->scratch_arena);
    free(x);
}

size_t ak_exec_nsteps(const struct ak_exec *x) { return x->nsteps; }
size_t ak_exec_nunits(const struct ak_exec *x) { return x->nunits; }

struct ak_step_info ak_exec_step_info(const struct ak_exec *x, size_t step) {
    const struct ak_step *s = &x->steps[step];
    return (struct ak_step_info){s->what, s->by, s->group, s->node, s->unit, s->calls, s->threads, s->prepare_us};
}

void ak_exec_memory(const struct ak_exec *x, size_t *activations, size_t *packed) {
    *activations = x->memory_bytes + x->scratch_bytes;
    *packed = x->packed_peak;
}

/* ---- inputs ---- */

static bool same_layout(const struct ak_tensor *a, const struct ak_tensor *b) {
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] > 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

static void copy_input(struct ak_exec *x, size_t i, const struct ak_tensor *from, const struct ak_tensor *plan) {
    struct ak_tensor to = *plan;
    size_t bytes = (size_t)ak_extent(plan) * ak_dtype_size(plan->dtype);
    if (!x->input_copy[i]) x->input_copy[i] = memset(aligned(bytes), 0, bytes);
    to.data = x->input_copy[i];
    ak_tensor_assign(&to, from);
}

int ak_exec_begin(struct ak_exec *x, const struct ak_tensor *inputs, struct ak_err *err) {
    for (size_t i = 0; i < x->g->ninputs; i++) {
        const struct ak_value *v = &x->g->values[x->g->inputs[i]];
        const struct ak_tensor *t = &inputs[i];
        char got[160], want[160];
        if (t->dtype != v->t.dtype || !ak_same_shape(t, &v->t))
            return ak_fail(err, AK_EXIT_INPUT, "input %zu '%s' is %s, not %s", i, v->name, ak_tensor_describe(t, got),
                           ak_tensor_describe(&v->t, want));
        if (same_layout(t, &v->t)) {
            x->base[x->g->inputs[i]] = (char *)t->data + (t->offset - v->t.offset) * (int64_t)ak_dtype_size(t->dtype);
            continue;
        }
        copy_input(x, i, t, &v->t);
        x->base[x->g->inputs[i]] = x->input_copy[i];
    }
    x->done = 0;
    return 0;
}

/* ---- steps ---- */

static int fetch_weights(struct ak_exec *x, const struct ak_step *s, struct ak_err *err) {
    ak_weights_tick(x->opt.weights);
    for (size_t i = 0; i < s->nreads; i++) {
        enum ak_value_kind k = x->g->values[s->reads[i]].kind;
        if (k == AK_VALUE_NODE || k == AK_VALUE_INPUT) continue;
        struct ak_tensor t;
        if (ak_weights_get(x->opt.weights, s->reads[i], &t, err)) return -1;
        x->base[s->reads[i]] = t.data;
    }
    return 0;
}

static const char *describe_rc(int rc) { return rc == AK_UNSUPPORTED ? "AK_UNSUPPORTED" : rc == AK_FAILED ? "AK_FAILED" : "an unknown status"; }

static int kernel_failed(const struct ak_exec *x, const struct ak_step *s, const char *fn, int rc, struct ak_err *err) {
    return ak_fail(err, AK_EXIT_NO, "%s of '%s' returned %s (%d) at node '%s'", fn, s->kernel->path, describe_rc(rc), rc,
                   x->g->nodes[s->node].name);
}

static int prepare(struct ak_exec *x, size_t step, struct ak_err *err) {
    struct ak_step *s = &x->steps[step];
    size_t bytes = s->needs.packed_bytes;
    bool ready = s->keeps_packed ? s->packed != NULL : x->loose && x->loose_step == step;
    if (s->keeps_packed && bytes && !s->packed) s->packed = aligned(bytes);
    if (!s->keeps_packed && bytes > x->loose_cap) {
        free(x->loose);
        x->loose = aligned(bytes);
        x->loose_cap = bytes;
        ready = false;
        if (x->packed_bytes + bytes > x->packed_peak) x->packed_peak = x->packed_bytes + bytes;
    }
    s->call.packed = s->keeps_packed ? s->packed : bytes ? x->loose : NULL;
    if (!s->kernel->prepare || !bytes || ready) return 0;
    if (!s->keeps_packed) x->loose_step = step;
    double from = ak_now_us();
    int rc = s->kernel->prepare(&s->call);
    s->prepare_us = ak_now_us() - from;
    return rc == AK_OK ? 0 : kernel_failed(x, s, "ak_prepare", rc, err);
}

static void copy_argument(struct ak_exec *x, const struct ak_step *s, const struct ak_step_copy *c) {
    struct ak_tensor from = x->g->values[c->value].t, to = from;
    ak_tensor_pack(&to);
    from.data = x->base[s->roots[c->arg]];
    to.data = s->dl[c->arg].data;
    ak_tensor_assign(&to, &from);
}

static int run_kernel(struct ak_exec *x, size_t step, double *us, struct ak_err *err) {
    struct ak_step *s = &x->steps[step];
    for (uint32_t i = 0; i < s->call.nargs; i++)
        if (s->roots[i] >= 0) s->dl[i].data = x->base[s->roots[i]];
    for (size_t i = 0; i < s->ncopies; i++)
        s->dl[s->copies[i].arg].data = x->memory + x->buffers[s->copies[i].buffer].offset;
    s->call.scratch = x->scratch;
    if (prepare(x, step, err)) return -1;
    double from = ak_now_us();
    for (size_t i = 0; i < s->ncopies; i++)
        copy_argument(x, s, &s->copies[i]);
    int rc = s->kernel->launch(&s->call);
    *us = ak_now_us() - from;
    return rc == AK_OK ? 0 : kernel_failed(x, s, "ak_launch", rc, err);
}

static void locate(struct ak_exec *x, int value) {
    if (value >= 0) x->tensors[value].data = x->base[x->root[value]];
}

static int run_reference(struct ak_exec *x, const struct ak_step *s, double *us, struct ak_err *err) {
    const struct ak_node *node = &x->g->nodes[s->node];
    double from = ak_now_us();
    for (size_t i = 0; i < node->op->nargs; i++)
        if (node->args[i].kind == AK_GARG_VALUE || node->args[i].kind == AK_GARG_VALUES)
            for (size_t k = 0; k < node->args[i].n; k++)
                locate(x, node->args[i].ids[k]);
    struct ak_opcall call;
    int rc = ak_graph_call(x->g, s->node, x->tensors, &x->scratch_arena, &call, err) || ak_op_infer(&call, err) ? -1 : 0;
    for (size_t i = 0; i < call.nout && !rc; i++) {
        int v = i < node->nouts ? node->outs[i] : -1;
        if (call.alias[i]) continue;
        if (v >= 0) {
            locate(x, v);
            call.out[i] = x->tensors[v];
        } else {
            call.out[i].data = x->memory + x->buffers[s->unnamed[i]].offset;
        }
    }
    if (!rc) rc = ak_op_run(&call, err);
    ak_arena_release(&x->scratch_arena);
    *us = ak_now_us() - from;
    return rc ? ak_fail_in(err, "node '%s'", node->name) : 0;
}

int ak_exec_step(struct ak_exec *x, size_t step, double *us, struct ak_err *err) {
    struct ak_step *s = &x->steps[step];
    double took = 0;
    if (fetch_weights(x, s, err)) return -1;
    int all = omp_get_max_threads();
    if (s->threads) omp_set_num_threads(s->threads);
    int rc = s->kernel ? run_kernel(x, step, &took, err) : run_reference(x, s, &took, err);
    omp_set_num_threads(all);
    if (rc) return -1;
    s->calls++;
    x->done = step + 1;
    if (us) *us = took;
    return 0;
}

void ak_exec_set_threads(struct ak_exec *x, size_t step, int threads) { x->steps[step].threads = threads; }

struct ak_tensor ak_exec_value(const struct ak_exec *x, int value) {
    struct ak_tensor t = x->g->values[value].t;
    int r = x->root[value], b = x->buffer_of[r];
    bool live = b < 0 || (x->buffers[b].first < x->done && x->buffers[b].last + 1 >= x->done);
    t.data = live ? x->base[r] : NULL;
    return t;
}

static int fetch_outputs(struct ak_exec *x, struct ak_tensor *outputs, struct ak_err *err) {
    for (size_t i = 0; i < x->g->noutputs; i++) {
        int r = x->root[x->g->outputs[i]];
        enum ak_value_kind k = x->g->values[r].kind;
        if (k != AK_VALUE_NODE && k != AK_VALUE_INPUT && k != AK_VALUE_INT) {
            struct ak_tensor t;
            if (ak_weights_get(x->opt.weights, r, &t, err)) return -1;
            x->base[r] = t.data;
        }
        if (outputs) outputs[i] = ak_exec_value(x, x->g->outputs[i]);
    }
    return 0;
}

int ak_exec_run(struct ak_exec *x, const struct ak_tensor *inputs, struct ak_tensor *outputs, double *step_us, struct ak_err *err) {
    if (ak_exec_begin(x, inputs, err)) return -1;
    for (size_t i = 0; i < x->nsteps; i++)
        if (ak_exec_step(x, i, step_us ? &step_us[i] : NULL, err)) return -1;
    return fetch_outputs(x, outputs, err);
}
