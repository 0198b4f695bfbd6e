/* The arguments of a group are views of graph values; its nodes want the values themselves.
 * as_strided leads from one to the other and back, since both lie over the same storage. */
#include "subgraph.h"

#include <stdlib.h>
#include <string.h>

struct cut {
    const struct ak_graph *g;
    struct ak_graph *out;
    int *map; /* value of g -> value of out, or -1 */
    struct ak_err *err;
};

static bool same_layout(const struct ak_tensor *a, const struct ak_tensor *b) {
    if (!ak_same_shape(a, b) || a->offset != b->offset) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

static struct ak_garg ints(struct ak_graph *out, const int64_t *v, int n) {
    int64_t *copy = ak_arena_alloc(&out->arena, ((size_t)n + 1) * sizeof *copy);
    memcpy(copy, v, (size_t)n * sizeof *copy);
    return (struct ak_garg){.kind = AK_GARG_CONST, .val = {.kind = AK_VAL_INTS, .ints = {copy, (size_t)n}}};
}

static struct ak_garg value_arg(struct ak_graph *out, int id) {
    int *ids = ak_arena_alloc(&out->arena, sizeof *ids);
    *ids = id;
    return (struct ak_garg){.kind = AK_GARG_VALUE, .ids = ids, .n = 1};
}

/* A value of out that shows the storage of `from` (seen as `has`) as `want`; -1 on error. */
static int restride(struct cut *c, int from, const struct ak_tensor *has, const struct ak_tensor *want, const char *name) {
    if (same_layout(has, want)) return from;
    const struct ak_op *op = ak_op_find("aten.as_strided.default");
    if (!op) return ak_fail(c->err, AK_EXIT_INPUT, "the op set has no aten.as_strided");
    char *full = ak_asprintf("as_strided_%s", name);
    int n = ak_graph_add_node(c->out, op, full);
    free(full);
    struct ak_garg *args = c->out->nodes[n].args;
    args[0] = value_arg(c->out, from);
    args[1] = ints(c->out, want->shape, want->ndim);
    args[2] = ints(c->out, want->stride, want->ndim);
    args[3] = (struct ak_garg){.kind = AK_GARG_CONST, .val = {.kind = AK_VAL_INT, .i = want->offset - has->offset}};
    if (ak_graph_infer(c->out, n, c->err)) return -1;
    return c->out->nodes[n].outs[0];
}

static int add_input(struct cut *c, const struct ak_group_arg *arg) {
    struct ak_tensor t = arg->t;
    t.offset = 0;
    int id = ak_graph_add_value(c->out, arg->name, AK_VALUE_INPUT, t);
    const struct ak_value *from = &c->g->values[arg->value];
    bool known = from->kind == AK_VALUE_INPUT;
    c->out->values[id].lo = known ? from->lo : 0;
    c->out->values[id].hi = known ? from->hi : 2; /* as the builder has it */
    int *inputs = ak_arena_alloc(&c->out->arena, (c->out->ninputs + 1) * sizeof *inputs);
    if (c->out->ninputs) memcpy(inputs, c->out->inputs, c->out->ninputs * sizeof *inputs);
    inputs[c->out->ninputs++] = id;
    c->out->inputs = inputs;
    if (c->map[arg->value] >= 0) return 0; /* a second view of a value already at hand */
    int whole = restride(c, id, &arg->t, &c->g->values[arg->value].t, arg->name);
    c->map[arg->value] = whole;
    return whole < 0 ? -1 : 0;
}

static int map_value(struct cut *c, int v) {
    if (v < 0) return -1;
    const struct ak_value *from = &c->g->values[v];
    if (c->map[v] < 0 && from->kind == AK_VALUE_INLINE) {
        int id = ak_graph_add_value(c->out, from->name, AK_VALUE_INLINE, from->t);
        c->out->values[id].bytes = from->bytes;
        c->out->values[id].data = memcpy(ak_arena_alloc(&c->out->arena, (size_t)from->bytes + 1), from->data, (size_t)from->bytes);
        c->map[v] = id;
    }
    return c->map[v];
}

static int copy_arg(struct cut *c, const struct ak_garg *from, struct ak_garg *to) {
    *to = *from;
    if (from->kind == AK_GARG_CONST) return 0;
    if (from->kind == AK_GARG_SYMINTS) {
        *to = ints(c->out, from->val.ints.v, (int)from->val.ints.n);
        for (size_t i = 0; i < from->n; i++)
            if (from->ids[i] >= 0) ((int64_t *)to->val.ints.v)[i] = c->g->values[from->ids[i]].ival;
        return 0;
    }
    if (from->kind == AK_GARG_VALUE && c->g->values[from->ids[0]].kind == AK_VALUE_INT) {
        *to = (struct ak_garg){.kind = AK_GARG_CONST, .val = {.kind = AK_VAL_INT, .i = c->g->values[from->ids[0]].ival}};
        return 0;
    }
    to->ids = ak_arena_alloc(&c->out->arena, (from->n + 1) * sizeof *to->ids);
    for (size_t i = 0; i < from->n; i++) {
        to->ids[i] = map_value(c, from->ids[i]);
        if (to->ids[i] < 0 && from->ids[i] >= 0)
            return ak_fail(c->err, AK_EXIT_INPUT, "value '%s' is neither an argument nor made within the group",
                           c->g->values[from->ids[i]].name);
    }
    return 0;
}

static int copy_node(struct cut *c, int n) {
    const struct ak_node *from = &c->g->nodes[n];
    int m = ak_graph_add_node(c->out, from->op, from->name);
    for (size_t i = 0; i < from->op->nargs; i++)
        if (copy_arg(c, &from->args[i], &c->out->nodes[m].args[i])) return -1;
    if (ak_graph_infer(c->out, m, c->err)) return -1;
    for (size_t i = 0; i < from->nouts; i++)
        if (from->outs[i] >= 0) c->map[from->outs[i]] = c->out->nodes[m].outs[i];
    return 0;
}

static int add_output(struct cut *c, const struct ak_group_arg *arg) {
    int v = c->map[arg->value];
    if (v < 0) return ak_fail(c->err, AK_EXIT_INPUT, "output '%s' is not made within the group", arg->name);
    v = restride(c, v, &c->g->values[arg->value].t, &arg->t, arg->name);
    if (v < 0) return -1;
    int *outputs = ak_arena_alloc(&c->out->arena, (c->out->noutputs + 1) * sizeof *outputs);
    if (c->out->noutputs) memcpy(outputs, c->out->outputs, c->out->noutputs * sizeof *outputs);
    outputs[c->out->noutputs++] = v;
    c->out->outputs = outputs;
    return 0;
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int ak_subgraph(const struct ak_graph *g, const struct ak_group *group, struct ak_graph *out, struct ak_err *err) {
    struct cut c = {.g = g, .out = out, .err = err, .map = ak_malloc((g->nvalues + 1) * sizeof(int))};
    for (size_t i = 0; i < g->nvalues; i++)
        c.map[i] = -1;
    ak_graph_init(out);
    out->name = ak_arena_strdup(&out->arena, group->type);
    out->source = ak_arena_strdup(&out->arena, g->name);
    int *nodes = ak_memdup(group->nodes, group->nnodes * sizeof *nodes);
    qsort(nodes, group->nnodes, sizeof *nodes, ascending);
    int rc = 0;
    for (size_t i = 0; i < group->nargs && !rc; i++)
        if (group->args[i].role == AK_ROLE_INPUT || group->args[i].role == AK_ROLE_CONSTANT) rc = add_input(&c, &group->args[i]);
    for (size_t i = 0; i < group->nnodes && !rc; i++)
        rc = copy_node(&c, nodes[i]);
    for (size_t i = 0; i < group->nargs && !rc; i++)
        if (group->args[i].role == AK_ROLE_OUTPUT) rc = add_output(&c, &group->args[i]);
    if (rc) {
        ak_fail_in(err, "group of type '%s'", group->type);
        ak_graph_release(out);
    }
    free(nodes);
    free(c.map);
    return rc;
}
