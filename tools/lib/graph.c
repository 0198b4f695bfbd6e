/* Building a graph and inferring it. Everything but the two growing arrays lies in the arena. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

void ak_graph_init(struct ak_graph *g) { *g = (struct ak_graph){0}; }

void ak_graph_release(struct ak_graph *g) {
    free(g->values);
    free(g->nodes);
    ak_arena_release(&g->arena);
    *g = (struct ak_graph){0};
}

int ak_graph_add_value(struct ak_graph *g, const char *name, enum ak_value_kind kind, struct ak_tensor t) {
    AK_GROW(g->values, g->nvalues, g->cap_values);
    t.data = NULL;
    g->values[g->nvalues] = (struct ak_value){.name = ak_arena_strdup(&g->arena, name), .kind = kind, .t = t, .node = -1};
    return (int)g->nvalues++;
}

int ak_graph_add_node(struct ak_graph *g, const struct ak_op *op, const char *name) {
    AK_GROW(g->nodes, g->nnodes, g->cap_nodes);
    struct ak_node *n = &g->nodes[g->nnodes];
    *n = (struct ak_node){.name = ak_arena_strdup(&g->arena, name), .op = op, .origin = ak_arena_strdup(&g->arena, "")};
    n->args = ak_arena_alloc(&g->arena, (op->nargs + 1) * sizeof *n->args);
    for (size_t i = 0; i < op->nargs; i++)
        if (op->args[i].has_default) n->args[i].val = op->args[i].def;
    return (int)g->nnodes++;
}

/* ---- calls ---- */

static const struct ak_tensor *tensor_of(const struct ak_graph *g, const struct ak_tensor *tensors, int id) {
    return id < 0 ? NULL : tensors ? &tensors[id] : &g->values[id].t;
}

static struct ak_val list_of(const struct ak_graph *g, const struct ak_tensor *tensors, const struct ak_garg *a, struct ak_arena *scratch) {
    const struct ak_tensor **v = ak_arena_alloc(scratch, (a->n + 1) * sizeof *v);
    for (size_t i = 0; i < a->n; i++)
        v[i] = tensor_of(g, tensors, a->ids[i]);
    return (struct ak_val){.kind = AK_VAL_TENSORS, .ts = {v, a->n}};
}

static struct ak_val ints_of(const struct ak_graph *g, const struct ak_garg *a, struct ak_arena *scratch) {
    int64_t *v = ak_arena_alloc(scratch, (a->n + 1) * sizeof *v);
    for (size_t i = 0; i < a->n; i++)
        v[i] = a->ids[i] >= 0 ? g->values[a->ids[i]].ival : a->val.ints.v[i];
    return (struct ak_val){.kind = AK_VAL_INTS, .ints = {v, a->n}};
}

int ak_graph_call(const struct ak_graph *g, int n, const struct ak_tensor *tensors, struct ak_arena *scratch, struct ak_opcall *call,
                  struct ak_err *err) {
    const struct ak_node *node = &g->nodes[n];
    if (node->op->nargs > AK_MAX_ARGS) return ak_fail(err, AK_EXIT_INPUT, "node '%s': %s has too many arguments", node->name, node->op->name);
    *call = (struct ak_opcall){.op = node->op, .nin = node->op->nargs};
    for (size_t i = 0; i < node->op->nargs; i++) {
        const struct ak_garg *a = &node->args[i];
        switch (a->kind) {
        case AK_GARG_CONST: call->in[i] = a->val; break;
        case AK_GARG_VALUE:
            if (g->values[a->ids[0]].kind == AK_VALUE_INT)
                call->in[i] = (struct ak_val){.kind = AK_VAL_INT, .i = g->values[a->ids[0]].ival};
            else
                call->in[i] = (struct ak_val){.kind = AK_VAL_TENSOR, .t = tensor_of(g, tensors, a->ids[0])};
            break;
        case AK_GARG_VALUES:
            for (size_t k = 0; k < a->n; k++)
                if (a->ids[k] >= 0 && g->values[a->ids[k]].kind == AK_VALUE_INT)
                    return ak_fail(err, AK_EXIT_INPUT, "node '%s': integer '%s' is among tensors", node->name, g->values[a->ids[k]].name);
            call->in[i] = list_of(g, tensors, a, scratch);
            break;
        case AK_GARG_SYMINTS: call->in[i] = ints_of(g, a, scratch); break;
        }
    }
    return 0;
}

/* ---- inference ---- */

static void name_outputs(struct ak_graph *g, int n, const struct ak_opcall *call) {
    size_t count = call->is_int ? 1 : call->nout;
    int *outs = ak_arena_alloc(&g->arena, (count + 1) * sizeof *outs);
    for (size_t i = 0; i < count; i++) {
        char *name = i ? ak_asprintf("%s.%zu", g->nodes[n].name, i) : ak_strdup(g->nodes[n].name);
        outs[i] = ak_graph_add_value(g, name, AK_VALUE_NODE, (struct ak_tensor){0});
        free(name);
    }
    g->nodes[n].outs = outs;
    g->nodes[n].nouts = count;
}

static int set_output(struct ak_graph *g, int n, size_t i, const struct ak_opcall *call, struct ak_err *err) {
    struct ak_value *v = &g->values[g->nodes[n].outs[i]];
    v->node = n;
    v->index = (int)i;
    if (call->is_int) {
        v->kind = AK_VALUE_INT;
        v->ival = call->ival;
        return 0;
    }
    v->kind = AK_VALUE_NODE;
    v->t = call->out[i];
    v->t.data = NULL;
    v->view_of = 0;
    if (!call->alias[i]) return 0;
    const struct ak_garg *a = &g->nodes[n].args[call->alias[i] - 1];
    if (a->kind != AK_GARG_VALUE) return ak_fail(err, AK_EXIT_INPUT, "node '%s' would view an argument that is no tensor", g->nodes[n].name);
    v->view_of = a->ids[0] + 1;
    return 0;
}

static int infer(struct ak_graph *g, int n, struct ak_arena *scratch, struct ak_err *err) {
    struct ak_opcall call;
    struct ak_node *node = &g->nodes[n];
    if (ak_graph_call(g, n, NULL, scratch, &call, err)) return -1;
    if (ak_op_infer(&call, err)) return ak_fail_in(err, "node '%s'", node->name);
    if (node->op->flags & AK_OP_INPLACE && call.nout && !call.alias[0] && call.in[0].kind == AK_VAL_TENSOR) {
        call.out[0] = *call.in[0].t; /* what it writes keeps its dtype and layout */
        call.alias[0] = 1;
    }
    for (size_t i = 0; i < node->op->nargs; i++) /* what SYMINTS hold is kept up to date for readers of val */
        if (node->args[i].kind == AK_GARG_SYMINTS)
            memcpy((int64_t *)node->args[i].val.ints.v, call.in[i].ints.v, node->args[i].n * sizeof(int64_t));
    if (!node->outs) name_outputs(g, n, &call);
    size_t count = call.is_int ? 1 : call.nout;
    if (g->nodes[n].nouts > count)
        return ak_fail(err, AK_EXIT_INPUT, "node '%s': %s has %zu outputs, not %zu", g->nodes[n].name, g->nodes[n].op->name, count,
                       g->nodes[n].nouts);
    for (size_t i = 0; i < g->nodes[n].nouts; i++)
        if (g->nodes[n].outs[i] >= 0 && set_output(g, n, i, &call, err)) return -1;
    return 0;
}

int ak_graph_infer(struct ak_graph *g, int n, struct ak_err *err) {
    struct ak_arena scratch = {0};
    int rc = infer(g, n, &scratch, err);
    ak_arena_release(&scratch);
    return rc;
}

/* ---- binding ---- */

static struct ak_symbol *find_symbol(const struct ak_graph *g, const char *name) {
    for (size_t i = 0; i < g->nsymbols; i++)
        if (strcmp(g->symbols[i].name, name) == 0) return &g->symbols[i];
    return NULL;
}

static int bind_dim(struct ak_graph *g, const struct ak_value *v, int d, int64_t size, bool *bound, struct ak_err *err) {
    if (!v->sym[d]) {
        if (size == v->t.shape[d]) return 0;
        return ak_fail(err, AK_EXIT_INPUT, "input '%s': the model fixes dimension %d to %lld, not %lld", v->name, d,
                       (long long)v->t.shape[d], (long long)size);
    }
    struct ak_symbol *s = find_symbol(g, v->sym[d]);
    if (!s) return 0; /* an expression of symbols: inference finds what does not fit */
    if (size < s->min || size > s->max)
        return ak_fail(err, AK_EXIT_INPUT, "input '%s': dimension %d is %lld, outside the model's range %lld to %lld", v->name, d,
                       (long long)size, (long long)s->min, (long long)s->max);
    if (bound[s - g->symbols] && s->value != size)
        return ak_fail(err, AK_EXIT_INPUT, "input '%s': dimension %d is %lld, but '%s' is %lld elsewhere", v->name, d, (long long)size,
                       s->name, (long long)s->value);
    bound[s - g->symbols] = true;
    s->value = size;
    return 0;
}

static int bind_input(struct ak_graph *g, struct ak_value *v, const struct ak_tensor *t, bool *bound, struct ak_err *err) {
    char a[160], b[160];
    if (t->dtype != v->t.dtype || t->ndim != v->t.ndim)
        return ak_fail(err, AK_EXIT_INPUT, "input '%s' is %s in the model, not %s", v->name, ak_tensor_describe(&v->t, a),
                       ak_tensor_describe(t, b));
    for (int d = 0; d < t->ndim; d++)
        if (bind_dim(g, v, d, t->shape[d], bound, err)) return -1;
    if (ak_same_shape(&v->t, t)) return 0;
    v->t = ak_tensor_new(t->dtype, t->ndim, t->shape);
    return ak_extent(&v->t) < 0 ? ak_fail(err, AK_EXIT_INPUT, "input '%s' is too large", v->name) : 0;
}

int ak_graph_bind(struct ak_graph *g, const struct ak_tensor *shapes, struct ak_err *err) {
    bool *bound = ak_calloc(g->nsymbols + 1, sizeof *bound);
    int rc = 0;
    for (size_t i = 0; i < g->ninputs && !rc; i++)
        rc = bind_input(g, &g->values[g->inputs[i]], &shapes[i], bound, err);
    free(bound);
    struct ak_arena scratch = {0};
    for (size_t i = 0; i < g->nnodes && !rc; i++) {
        rc = infer(g, (int)i, &scratch, err);
        ak_arena_release(&scratch);
    }
    return rc;
}

/* ---- users ---- */

static size_t count_reads(const struct ak_graph *g) {
    size_t n = 0;
    for (size_t i = 0; i < g->nnodes; i++)
        for (size_t k = 0; k < g->nodes[i].op->nargs; k++)
            n += g->nodes[i].args[k].kind == AK_GARG_CONST ? 0 : g->nodes[i].args[k].n;
    return n;
}

int **ak_graph_users(const struct ak_graph *g) {
    size_t *count = ak_calloc(g->nvalues + 1, sizeof *count);
    int **users = ak_malloc((g->nvalues + 1) * sizeof *users + (count_reads(g) + g->nvalues) * sizeof(int));
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        if (pass) {
            int *at = (int *)(users + g->nvalues + 1);
            for (size_t v = 0; v < g->nvalues; v++) {
                users[v] = at;
                at += count[v] + 1;
                count[v] = 0;
                users[v][0] = -1;
            }
        }
        for (size_t i = 0; i < g->nnodes; i++)
            for (size_t k = 0; k < g->nodes[i].op->nargs; k++) {
                const struct ak_garg *a = &g->nodes[i].args[k];
                if (a->kind == AK_GARG_CONST) continue;
                for (size_t j = 0; j < a->n; j++) {
                    if (a->ids[j] < 0) continue;
                    size_t v = (size_t)a->ids[j];
                    if (pass && count[v] && users[v][count[v] - 1] == (int)i) continue; /* it reads v twice */
                    if (pass) users[v][count[v]] = (int)i, users[v][count[v] + 1] = -1;
                    count[v]++;
                }
            }
    }
    free(count);
    return users;
}
