/* Planning: units (groups and lone nodes) in an order that respects the data, each made into one
 * step or, for a group that no kernel does, one step a node; then one arena by liveness.
 *
 * Data dependencies go by storage: a view needs no step, its readers depend on whoever wrote the
 * storage it lies in. Values are written once, so that is exact. */
#include <stdlib.h>
#include <string.h>

#include "exec_plan.h"
#include "lower.h"

/* ---- units ---- */

struct unit {
    int group, last; /* group or -1; its highest node */
    enum { NEW, OPEN, DONE } state;
};
struct order {
    struct ak_exec *x;
    struct unit *units;
    size_t n;
    int *unit_of; /* by node; -1: no step */
    size_t *sorted, nsorted;
    struct ak_err *err;
};

/* Whether a node has something to compute: an output that is no view, no integer. */
static bool has_work(const struct ak_graph *g, const struct ak_node *node) {
    if (node->op->flags & AK_OP_EFFECT || !node->op->run) return false;
    for (size_t i = 0; i < node->nouts; i++)
        if (node->outs[i] >= 0 && !g->values[node->outs[i]].view_of && g->values[node->outs[i]].kind == AK_VALUE_NODE) return true;
    return false;
}

static const struct ak_group *group_of(const struct ak_exec *x, int i) { return &x->opt.groups[i]; }

static int describe_group(struct ak_exec *x, int i, struct ak_err *err) {
    const struct ak_group *gr = group_of(x, i);
    return ak_fail_in(err, "group %d (%s of node '%s')", i, gr->type, x->g->nodes[gr->nodes[0]].name);
}

static int make_units(struct order *o) {
    const struct ak_graph *g = o->x->g;
    o->units = ak_calloc(o->x->opt.ngroups + g->nnodes + 1, sizeof *o->units);
    o->sorted = ak_calloc(o->x->opt.ngroups + g->nnodes + 1, sizeof *o->sorted);
    o->unit_of = ak_malloc((g->nnodes + 1) * sizeof *o->unit_of);
    for (size_t i = 0; i < g->nnodes; i++)
        o->unit_of[i] = -1;
    for (size_t i = 0; i < o->x->opt.ngroups; i++) {
        const struct ak_group *gr = group_of(o->x, (int)i);
        struct unit *u = &o->units[o->n];
        u->group = (int)i;
        for (size_t k = 0; k < gr->nnodes; k++) {
            int n = gr->nodes[k];
            if (o->unit_of[n] >= 0) {
                ak_fail(o->err, AK_EXIT_INPUT, "node '%s' is in two groups", g->nodes[n].name);
                return describe_group(o->x, (int)i, o->err);
            }
            o->unit_of[n] = (int)o->n;
            if (n > u->last) u->last = n;
        }
        o->n++;
    }
    for (size_t i = 0; i < g->nnodes; i++) {
        if (g->nodes[i].op->flags & AK_OP_INPLACE)
            return ak_fail(o->err, AK_EXIT_INPUT, "node '%s' works in place: import the model again", g->nodes[i].name);
        if (o->unit_of[i] >= 0 || !has_work(g, &g->nodes[i])) continue;
        o->unit_of[i] = (int)o->n;
        o->units[o->n++] = (struct unit){.group = -1, .last = (int)i};
    }
    return 0;
}

/* The unit that makes the storage of a value, or -1. */
static int maker(const struct order *o, int value) {
    if (value < 0) return -1;
    const struct ak_value *r = &o->x->g->values[o->x->root[value]];
    return r->kind == AK_VALUE_NODE ? o->unit_of[r->node] : -1;
}

static int visit(struct order *o, size_t u);

static int visit_value(struct order *o, size_t u, int value) {
    int m = maker(o, value);
    if (m < 0 || (size_t)m == u || o->units[m].state == DONE) return 0;
    if (o->units[m].state == NEW) return visit(o, (size_t)m);
    int group = o->units[u].group >= 0 ? o->units[u].group : o->units[m].group;
    ak_fail(o->err, AK_EXIT_INPUT, "it is not convex: what it makes leads through other nodes to its own input '%s'",
            o->x->g->values[value].name);
    return describe_group(o->x, group, o->err);
}

static int visit_node(struct order *o, size_t u, const struct ak_node *node) {
    for (size_t i = 0; i < node->op->nargs; i++) {
        const struct ak_garg *a = &node->args[i];
        if (a->kind == AK_GARG_VALUE || a->kind == AK_GARG_VALUES)
            for (size_t k = 0; k < a->n; k++)
                if (visit_value(o, u, a->ids[k])) return -1;
    }
    return 0;
}

/* Depth first, makers before users. */
static int visit(struct order *o, size_t u) {
    struct unit *unit = &o->units[u];
    const struct ak_graph *g = o->x->g;
    unit->state = OPEN;
    if (unit->group < 0) {
        if (visit_node(o, u, &g->nodes[unit->last])) return -1;
    } else {
        const struct ak_group *gr = group_of(o->x, unit->group);
        for (size_t i = 0; i < gr->nnodes; i++)
            if (visit_node(o, u, &g->nodes[gr->nodes[i]])) return -1;
        for (size_t i = 0; i < gr->nargs; i++)
            if (visit_value(o, u, gr->args[i].value)) return -1;
    }
    unit->state = DONE;
    o->sorted[o->nsorted++] = u;
    return 0;
}

static int sort_units(struct order *o) {
    /* in the order of their last nodes, so that a unit runs soon before its users */
    int *at = ak_malloc((o->x->g->nnodes + 1) * sizeof *at);
    for (size_t i = 0; i < o->x->g->nnodes; i++)
        at[i] = -1;
    for (size_t i = 0; i < o->n; i++)
        at[o->units[i].last] = (int)i;
    int rc = 0;
    for (size_t i = 0; i < o->x->g->nnodes && !rc; i++)
        if (at[i] >= 0 && o->units[at[i]].state == NEW) rc = visit(o, (size_t)at[i]);
    free(at);
    return rc;
}

/* ---- steps ---- */

static void add_storage(int **list, size_t *n, struct ak_exec *x, int root) {
    for (size_t i = 0; i < *n; i++)
        if ((*list)[i] == root) return;
    if ((*n & (*n + 1)) == 0 || !*list) { /* grows at 0, 1, 3, 7 ... */
        int *more = ak_arena_alloc(&x->arena, (2 * *n + 2) * sizeof *more);
        if (*n) memcpy(more, *list, *n * sizeof *more);
        *list = more;
    }
    (*list)[(*n)++] = root;
}

static struct ak_step *new_step(struct ak_exec *x, const char *what, const char *by, int group, int node, size_t unit) {
    AK_GROW(x->steps, x->nsteps, x->cap_steps);
    struct ak_step *s = &x->steps[x->nsteps++];
    *s = (struct ak_step){.what = what, .by = by, .group = group, .node = node, .unit = unit};
    return s;
}

/* Fills in the call of a group; tensors without data, as ak_query wants them. */
static void make_call(struct ak_exec *x, struct ak_step *s, const struct ak_group *gr) {
    s->args = ak_arena_alloc(&x->arena, (gr->nargs + 1) * sizeof *s->args);
    s->dl = ak_arena_alloc(&x->arena, (gr->nargs + 1) * sizeof *s->dl);
    s->t = ak_arena_alloc(&x->arena, (gr->nargs + 1) * sizeof *s->t);
    s->roots = ak_arena_alloc(&x->arena, (gr->nargs + 1) * sizeof *s->roots);
    s->copies = ak_arena_alloc(&x->arena, (gr->nargs + 1) * sizeof *s->copies);
    s->ncopies = 0;
    for (size_t i = 0; i < gr->nargs; i++) {
        const struct ak_group_arg *a = &gr->args[i];
        s->roots[i] = a->role == AK_ROLE_ABSENT ? -1 : x->root[a->value];
        s->args[i].role = a->role;
        if (s->roots[i] < 0) continue;
        s->t[i] = a->t;
        s->t[i].data = NULL;
        s->dl[i] = ak_dltensor(&s->t[i]);
        s->args[i].tensor = &s->dl[i];
        bool out = a->role == AK_ROLE_OUTPUT;
        if (a->copy) s->copies[s->ncopies++] = (struct ak_step_copy){i, a->value, -1};
        add_storage(out ? &s->writes : &s->reads, out ? &s->nwrites : &s->nreads, x, s->roots[i]);
    }
    s->call = (struct ak_call){.abi = AK_KERNEL_ABI,
                               .type = gr->type,
                               .nargs = (uint32_t)gr->nargs,
                               .nattrs = (uint32_t)gr->nattrs,
                               .args = s->args,
                               .attrs = gr->attrs};
}

static bool wants(struct ak_step *s, const struct ak_kernel *k) {
    s->needs = (struct ak_needs){0};
    if (k->query(&s->call, &s->needs) != AK_OK) return false;
    s->kernel = k;
    return true;
}

/* The opponent for a call: 0 found, 1 none, -1 error. */
static int try_vendor(struct ak_exec *x, struct ak_step *s, const char *type, struct ak_err *err) {
    if (x->opt.backend != AK_BACKEND_VENDOR) return 1;
    const struct ak_kernel *k;
    for (size_t nth = 0;; nth++) {
        if (ak_vendor_find(x->vendor, type, nth, &k, err)) return -1;
        if (!k) return 1;
        if (wants(s, k)) return 0;
    }
}

static void note_lack(struct ak_exec *x, const struct ak_node *node, const char *why) {
    if (!x->opt.verbose) return;
    for (size_t i = 0; i + 1 < x->nsteps; i++)
        if (!x->steps[i].kernel && strcmp(x->steps[i].what, node->op->name) == 0) return;
    ak_warn("no vendor kernel for %s (node '%s'%s%s): the reference does it", node->op->name, node->name, *why ? ": " : "", why);
}

/* A buffer for the newest step alone. */
static int passing_buffer(struct ak_exec *x, size_t bytes) {
    AK_GROW(x->buffers, x->nbuffers, x->cap_buffers);
    x->buffers[x->nbuffers] = (struct ak_buffer){.value = -1, .bytes = bytes, .first = x->nsteps - 1, .last = x->nsteps - 1};
    return (int)x->nbuffers++;
}

/* The outputs nobody named need memory for the step all the same. */
static int unnamed_outputs(struct ak_exec *x, struct ak_step *s, struct ak_err *err) {
    struct ak_opcall call;
    int rc = ak_graph_call(x->g, s->node, NULL, &x->scratch_arena, &call, err) || ak_op_infer(&call, err) ? -1 : 0;
    const struct ak_node *node = &x->g->nodes[s->node];
    s->unnamed = ak_arena_alloc(&x->arena, (call.nout + 1) * sizeof *s->unnamed);
    for (size_t i = 0; i < call.nout && !rc; i++) {
        s->unnamed[i] = -1;
        if ((i < node->nouts && node->outs[i] >= 0) || call.alias[i]) continue;
        s->unnamed[i] = passing_buffer(x, (size_t)ak_extent(&call.out[i]) * ak_dtype_size(call.out[i].dtype));
    }
    ak_arena_release(&x->scratch_arena);
    return rc;
}

static int reference_step(struct ak_exec *x, struct ak_step *s, struct ak_err *err) {
    const struct ak_node *node = &x->g->nodes[s->node];
    s->what = node->op->name;
    s->by = "reference";
    s->kernel = NULL;
    s->reads = s->writes = NULL;
    s->nreads = s->nwrites = 0;
    for (size_t i = 0; i < node->op->nargs; i++)
        if (node->args[i].kind == AK_GARG_VALUE || node->args[i].kind == AK_GARG_VALUES)
            for (size_t k = 0; k < node->args[i].n; k++) {
                int v = node->args[i].ids[k];
                if (v >= 0 && x->g->values[v].kind != AK_VALUE_INT) add_storage(&s->reads, &s->nreads, x, x->root[v]);
            }
    for (size_t i = 0; i < node->nouts; i++)
        if (node->outs[i] >= 0 && !x->g->values[node->outs[i]].view_of) add_storage(&s->writes, &s->nwrites, x, node->outs[i]);
    return unnamed_outputs(x, s, err);
}

static void place_copies(struct ak_exec *x, struct ak_step *s) {
    for (size_t i = 0; i < s->ncopies; i++) {
        const struct ak_tensor *t = &x->g->values[s->copies[i].value].t;
        s->copies[i].buffer = passing_buffer(x, (size_t)ak_numel(t) * ak_dtype_size(t->dtype));
    }
}

typedef int lower_fn(const struct ak_graph *, int, struct ak_group *, struct ak_arena *, struct ak_err *);

static int node_step(struct ak_exec *x, int group, int n, size_t unit, struct ak_err *err) {
    const struct ak_node *node = &x->g->nodes[n];
    if (!has_work(x->g, node)) return 0;
    struct ak_step *s = new_step(x, node->op->name, "vendor", group, n, unit);
    struct ak_err why = {0};
    if (x->opt.backend == AK_BACKEND_VENDOR) {
        static lower_fn *const lower[] = {ak_lower_aten, ak_lower_copying};
        for (size_t i = 0; i < 2; i++) {
            struct ak_group gr;
            if (lower[i](x->g, n, &gr, &x->arena, &why)) continue;
            s->reads = s->writes = NULL;
            s->nreads = s->nwrites = 0;
            make_call(x, s, &gr);
            int rc = try_vendor(x, s, gr.type, err);
            if (rc == 0) place_copies(x, s);
            if (rc <= 0) return rc;
        }
        note_lack(x, node, why.msg);
    }
    return reference_step(x, s, err);
}

static int group_steps(struct ak_exec *x, int i, size_t unit, struct ak_err *err) {
    const struct ak_group *gr = group_of(x, i);
    struct ak_step *s = new_step(x, gr->type, "kernel", i, gr->nodes[0], unit);
    for (size_t k = 1; k < gr->nnodes; k++)
        if (gr->nodes[k] < s->node) s->node = gr->nodes[k];
    make_call(x, s, gr);
    if (gr->kernel) {
        if (ak_kernel_open(&x->kernels[i], gr->kernel, err)) return -1;
        if (wants(s, &x->kernels[i])) return 0;
        ak_warn("'%s' does not support its call at node '%s': the opponent does it", gr->kernel, x->g->nodes[s->node].name);
    }
    s->by = "vendor";
    int rc = try_vendor(x, s, gr->type, err);
    if (rc <= 0) return rc;
    x->nsteps--;
    bool *in = ak_calloc(x->g->nnodes + 1, sizeof *in);
    for (size_t k = 0; k < gr->nnodes; k++)
        in[gr->nodes[k]] = true;
    rc = 0;
    for (size_t n = 0; n < x->g->nnodes && !rc; n++)
        if (in[n]) rc = node_step(x, i, (int)n, unit, err);
    free(in);
    return rc;
}

/* ---- memory ---- */

static int add_buffer(struct ak_exec *x, int value, size_t step) {
    if (x->buffer_of[value] >= 0) return 0;
    AK_GROW(x->buffers, x->nbuffers, x->cap_buffers);
    x->buffer_of[value] = (int)x->nbuffers;
    const struct ak_tensor *t = &x->g->values[value].t;
    x->buffers[x->nbuffers++] = (struct ak_buffer){
        .value = value, .bytes = (size_t)ak_extent(t) * ak_dtype_size(t->dtype), .first = step, .last = step};
    return 0;
}

static int check_made(struct ak_exec *x, int value, const char *reader, struct ak_err *err) {
    const struct ak_value *r = &x->g->values[x->root[value]];
    if (r->kind != AK_VALUE_NODE || x->buffer_of[x->root[value]] >= 0) return 0;
    return ak_fail(err, AK_EXIT_INPUT, "value '%s', which %s reads, is made inside a group and is not one of its outputs", r->name, reader);
}

static int find_lifetimes(struct ak_exec *x, struct ak_err *err) {
    for (size_t i = 0; i < x->nsteps; i++) {
        struct ak_step *s = &x->steps[i];
        for (size_t k = 0; k < s->nreads; k++) {
            int v = s->reads[k];
            if (check_made(x, v, x->g->nodes[s->node].name, err)) return -1;
            if (x->buffer_of[v] >= 0) x->buffers[x->buffer_of[v]].last = i;
        }
        for (size_t k = 0; k < s->nwrites; k++) {
            const struct ak_value *v = &x->g->values[s->writes[k]];
            if (v->kind != AK_VALUE_NODE)
                return ak_fail(err, AK_EXIT_INPUT, "node '%s' would write '%s', which is not its to write", x->g->nodes[s->node].name, v->name);
            add_buffer(x, s->writes[k], i);
        }
    }
    for (size_t i = 0; i < x->g->noutputs; i++) {
        int r = x->root[x->g->outputs[i]];
        if (check_made(x, r, "the caller", err)) return -1;
        if (x->buffer_of[r] >= 0) x->buffers[x->buffer_of[r]].last = x->nsteps;
    }
    return 0;
}

static int larger_first(const void *a, const void *b) {
    const struct ak_buffer *p = *(struct ak_buffer *const *)a, *q = *(struct ak_buffer *const *)b;
    if (p->bytes != q->bytes) return p->bytes < q->bytes ? 1 : -1;
    return (p->first > q->first) - (p->first < q->first);
}

static size_t round_up(size_t n) { return (n + 63) & ~(size_t)63; }

/* The larger first, each at the lowest place that is free for as long as it lives. `placed` is
 * kept in order of offset. */
static void place_buffers(struct ak_exec *x) {
    struct ak_buffer **order = ak_malloc((x->nbuffers + 1) * sizeof *order), **placed = ak_malloc((x->nbuffers + 1) * sizeof *placed);
    for (size_t i = 0; i < x->nbuffers; i++)
        order[i] = &x->buffers[i];
    qsort(order, x->nbuffers, sizeof *order, larger_first);
    for (size_t i = 0; i < x->nbuffers; i++) {
        struct ak_buffer *b = order[i];
        size_t at = 0, k;
        for (k = 0; k < i; k++) {
            const struct ak_buffer *p = placed[k];
            if (p->last < b->first || b->last < p->first || p->offset + p->bytes <= at) continue;
            if (at + b->bytes <= p->offset) break;
            at = round_up(p->offset + p->bytes);
        }
        b->offset = at;
        for (k = i; k > 0 && placed[k - 1]->offset > at; k--)
            placed[k] = placed[k - 1];
        placed[k] = b;
        if (at + b->bytes > x->memory_bytes) x->memory_bytes = at + b->bytes;
    }
    free(order);
    free(placed);
}

int ak_exec_plan(struct ak_exec *x, struct ak_err *err) {
    struct order o = {.x = x, .err = err};
    int rc = make_units(&o) || sort_units(&o) ? -1 : 0;
    for (size_t i = 0; i < o.nsorted && !rc; i++) {
        struct unit *u = &o.units[o.sorted[i]];
        rc = u->group >= 0 ? group_steps(x, u->group, i, err) : node_step(x, -1, u->last, i, err);
    }
    x->nunits = o.nsorted;
    if (!rc) rc = find_lifetimes(x, err);
    if (!rc) place_buffers(x);
    for (size_t i = 0; i < x->nsteps; i++)
        if (x->steps[i].kernel && x->steps[i].needs.scratch_bytes > x->scratch_bytes) x->scratch_bytes = x->steps[i].needs.scratch_bytes;
    free(o.units);
    free(o.sorted);
    free(o.unit_of);
    return rc;
}
