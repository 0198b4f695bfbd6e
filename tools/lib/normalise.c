/* Normal form: functional, nothing dead, nothing that only passes its input on, constants folded,
 * grouped keys and values read where they are. */
#include "normalise.h"

#include <stdlib.h>
#include <string.h>

/* ---- shared ---- */

bool ak_op_is(const struct ak_node *n, const char *name) { return strcmp(n->op->name, name) == 0; }

int ak_arg_value(const struct ak_node *n, const char *arg) {
    int i = ak_op_arg_index(n->op, arg);
    return i >= 0 && n->args[i].kind == AK_GARG_VALUE ? n->args[i].ids[0] : -1;
}

const struct ak_val *ak_arg_const(const struct ak_node *n, const char *arg) {
    int i = ak_op_arg_index(n->op, arg);
    return i >= 0 && n->args[i].kind == AK_GARG_CONST && n->args[i].val.kind != AK_VAL_NONE ? &n->args[i].val : NULL;
}

int ak_maker(const struct ak_graph *g, int value) {
    const struct ak_value *v = &g->values[value];
    return v->kind == AK_VALUE_NODE || v->kind == AK_VALUE_INT ? v->node : -1;
}

int *ak_new_id(struct ak_graph *g, int id) {
    int *ids = ak_arena_alloc(&g->arena, sizeof *ids);
    *ids = id;
    return ids;
}

void ak_substitute(struct ak_graph *g, struct ak_node *n, const int *map) {
    for (size_t i = 0; i < n->op->nargs; i++) {
        struct ak_garg *a = &n->args[i];
        if (a->kind == AK_GARG_CONST) continue;
        int *ids = ak_arena_alloc(&g->arena, (a->n + 1) * sizeof *ids);
        for (size_t k = 0; k < a->n; k++)
            ids[k] = a->ids[k] < 0 ? -1 : map[a->ids[k]];
        a->ids = ids;
    }
}

struct ak_node ak_clone_node(struct ak_graph *g, const struct ak_node *n) {
    struct ak_node c = *n;
    c.args = ak_arena_alloc(&g->arena, (n->op->nargs + 1) * sizeof *c.args);
    memcpy(c.args, n->args, n->op->nargs * sizeof *c.args);
    c.outs = NULL;
    c.nouts = 0;
    return c;
}

/* ---- dead nodes and values ---- */

static void need_args(const struct ak_node *n, bool *need) {
    for (size_t i = 0; i < n->op->nargs; i++)
        for (size_t k = 0; n->args[i].kind != AK_GARG_CONST && k < n->args[i].n; k++)
            if (n->args[i].ids[k] >= 0) need[n->args[i].ids[k]] = true;
}

static void drop_nodes(struct ak_graph *g, bool *need) {
    bool *keep = ak_calloc(g->nnodes + 1, sizeof *keep);
    for (size_t i = g->nnodes; i-- > 0;) {
        const struct ak_node *n = &g->nodes[i];
        for (size_t k = 0; k < n->nouts; k++)
            keep[i] |= n->outs[k] >= 0 && need[n->outs[k]];
        if (keep[i]) need_args(n, need);
    }
    size_t kept = 0;
    for (size_t i = 0; i < g->nnodes; i++)
        if (keep[i]) g->nodes[kept++] = g->nodes[i];
    g->nnodes = kept;
    free(keep);
}

void ak_compact(struct ak_graph *g) {
    bool *need = ak_calloc(g->nvalues + 1, sizeof *need);
    int *map = ak_malloc((g->nvalues + 1) * sizeof *map);
    for (size_t i = 0; i < g->noutputs; i++)
        need[g->outputs[i]] = true;
    drop_nodes(g, need);
    for (size_t i = 0; i < g->ninputs; i++)
        need[g->inputs[i]] = true;
    for (size_t i = 0; i < g->nnodes; i++)
        for (size_t k = 0; k < g->nodes[i].nouts; k++)
            if (g->nodes[i].outs[k] >= 0) need[g->nodes[i].outs[k]] = true;
    for (size_t i = 0; i < g->nvalues; i++) /* roots come before what views them, and may have no other reader */
        for (int v = (int)i; need[i] && g->values[v].view_of; v = g->values[v].view_of - 1)
            need[g->values[v].view_of - 1] = true;
    size_t kept = 0;
    for (size_t i = 0; i < g->nvalues; i++) {
        map[i] = need[i] ? (int)kept : -1;
        if (need[i]) g->values[kept++] = g->values[i];
    }
    g->nvalues = kept;
    for (size_t i = 0; i < kept; i++)
        if (g->values[i].view_of) g->values[i].view_of = map[g->values[i].view_of - 1] + 1;
    for (size_t i = 0; i < g->nnodes; i++) {
        struct ak_node *n = &g->nodes[i];
        ak_substitute(g, n, map);
        for (size_t k = 0; k < n->nouts; k++) {
            if (n->outs[k] < 0) continue;
            n->outs[k] = map[n->outs[k]];
            g->values[n->outs[k]].node = (int)i;
        }
    }
    for (size_t i = 0; i < g->ninputs; i++)
        g->inputs[i] = map[g->inputs[i]];
    for (size_t i = 0; i < g->noutputs; i++)
        g->outputs[i] = map[g->outputs[i]];
    free(need);
    free(map);
}

static int infer_all(struct ak_graph *g, struct ak_err *err) {
    for (size_t i = 0; i < g->nnodes; i++)
        if (ak_graph_infer(g, (int)i, err)) return -1;
    return 0;
}

/* ---- ops that pass their input on ---- */

static bool same_layout(const struct ak_tensor *a, const struct ak_tensor *b) {
    if (a->dtype != b->dtype || !ak_same_shape(a, b)) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] > 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

static bool is_number(const struct ak_val *v, double x) {
    return v && ((v->kind == AK_VAL_INT && (double)v->i == x) || (v->kind == AK_VAL_FLOAT && v->f == x));
}

/* Arithmetic with a number that changes nothing. 0.0 is not neutral: -0.0 + 0.0 is 0.0. */
static bool is_neutral(const struct ak_node *n, const struct ak_tensor *in) {
    if (ak_op_is(n, "aten.mul.Tensor") || ak_op_is(n, "aten.mul.Scalar") || ak_op_is(n, "aten.div.Tensor") || ak_op_is(n, "aten.div.Scalar"))
        return is_number(ak_arg_const(n, "other"), 1);
    if (ak_op_is(n, "aten.add.Tensor") || ak_op_is(n, "aten.sub.Tensor"))
        return !ak_dtype_is_float(in->dtype) && is_number(ak_arg_const(n, "other"), 0);
    return false;
}

static bool is_idle_dropout(const struct ak_node *n) {
    static const char *const names[] = {"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
                                        "aten.feature_alpha_dropout.default"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ak_op_is(n, names[i])) {
            const struct ak_val *train = ak_arg_const(n, "train");
            return is_number(ak_arg_const(n, "p"), 0) || (train && train->kind == AK_VAL_BOOL && !train->i);
        }
    return false;
}

/* Ops whose output, where dtype, shape and strides are the input's, is the input. */
static bool may_pass(const struct ak_node *n) {
    static const char *const names[] = {
        "aten.alias.default",       "aten.detach.default",     "aten.clone.default",   "aten.contiguous.default",   "aten.lift_fresh_copy.default",
        "aten._to_copy.default",    "aten.type_as.default",    "aten.view.default",    "aten.reshape.default",      "aten._unsafe_view.default",
        "aten.expand.default",      "aten.expand_as.default",  "aten.view_as.default", "aten.slice.Tensor",         "aten.permute.default",
        "aten.flatten.using_ints",  "aten.unflatten.int",      "aten.squeeze.default", "aten.squeeze.dim",          "aten.squeeze.dims",
        "aten.transpose.int",       "aten.t.default",          "aten.float.default",   "aten.broadcast_to.default", "aten.narrow.default",
    };
    if (strncmp(n->op->name, "aten.to.", 8) == 0) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ak_op_is(n, names[i])) return true;
    return false;
}

/* The value that node n merely passes on, or -1. */
static int passes(const struct ak_graph *g, const struct ak_node *n) {
    if (n->nouts != 1 || n->outs[0] < 0 || n->op->nargs == 0 || n->args[0].kind != AK_GARG_VALUE) return -1;
    int in = n->args[0].ids[0];
    const struct ak_value *from = &g->values[in], *to = &g->values[n->outs[0]];
    if (from->kind == AK_VALUE_INT || to->kind != AK_VALUE_NODE) return -1;
    if (is_idle_dropout(n)) return in;
    bool same = may_pass(n) || is_neutral(n, &from->t);
    return same && same_layout(&from->t, &to->t) ? in : -1;
}

static int drop_passing(struct ak_graph *g, struct ak_err *err) {
    int *map = ak_malloc((g->nvalues + 1) * sizeof *map), rc = 0;
    for (size_t i = 0; i < g->nvalues; i++)
        map[i] = (int)i;
    for (size_t i = 0; i < g->nnodes && !rc; i++) {
        ak_substitute(g, &g->nodes[i], map);
        rc = ak_graph_infer(g, (int)i, err);
        int in = rc ? -1 : passes(g, &g->nodes[i]);
        if (in >= 0) map[g->nodes[i].outs[0]] = in;
    }
    for (size_t i = 0; i < g->noutputs; i++)
        g->outputs[i] = map[g->outputs[i]];
    free(map);
    return rc;
}

/* ---- grouped queries ---- */

static bool is_shaping(const struct ak_node *n) {
    return ak_op_is(n, "aten.reshape.default") || ak_op_is(n, "aten.view.default") || ak_op_is(n, "aten._unsafe_view.default");
}

static const struct ak_node *made_by(const struct ak_graph *g, int v) {
    int m = v < 0 ? -1 : ak_maker(g, v);
    return m < 0 ? NULL : &g->nodes[m];
}

/* x[b, h, t, d] of which v is [b, h*n, t, d], each head n times in a row; or -1. The shapes alone
 * decide: unsqueeze to [b, h, 1, t, d], expand to [b, h, n, t, d], reshape. */
static int repeated(const struct ak_graph *g, int v, int64_t *n) {
    const struct ak_node *shape = made_by(g, v);
    if (!shape) return -1;
    const struct ak_tensor *t = &g->values[v].t;
    if (ak_op_is(shape, "aten.repeat_interleave.self_int")) {
        int x = ak_arg_value(shape, "self");
        const struct ak_val *dim = ak_arg_const(shape, "dim"), *times = ak_arg_const(shape, "repeats");
        if (x < 0 || t->ndim != 4 || !dim || !times || (dim->i != 1 && dim->i != -3)) return -1;
        *n = times->i;
        return x;
    }
    if (!is_shaping(shape)) return -1;
    const struct ak_node *expand = made_by(g, ak_arg_value(shape, "self"));
    if (expand && (ak_op_is(expand, "aten.clone.default") || ak_op_is(expand, "aten.contiguous.default")))
        expand = made_by(g, ak_arg_value(expand, "self"));
    if (!expand || !ak_op_is(expand, "aten.expand.default")) return -1;
    const struct ak_node *unsqueeze = made_by(g, ak_arg_value(expand, "self"));
    if (!unsqueeze || !ak_op_is(unsqueeze, "aten.unsqueeze.default")) return -1;
    int x = ak_arg_value(unsqueeze, "self");
    const struct ak_val *dim = ak_arg_const(unsqueeze, "dim");
    const struct ak_tensor *s = &g->values[x].t, *e = &g->values[expand->outs[0]].t;
    if (s->ndim != 4 || t->ndim != 4 || e->ndim != 5 || !dim || (dim->i != 2 && dim->i != -3)) return -1;
    *n = e->shape[2];
    bool fits = e->shape[0] == s->shape[0] && e->shape[1] == s->shape[1] && e->shape[3] == s->shape[2] && e->shape[4] == s->shape[3];
    fits &= t->shape[0] == s->shape[0] && t->shape[1] == s->shape[1] * *n && t->shape[2] == s->shape[2] && t->shape[3] == s->shape[3];
    return fits ? x : -1;
}

static void group_queries(struct ak_graph *g) {
    for (size_t i = 0; i < g->nnodes; i++) {
        struct ak_node *n = &g->nodes[i];
        int k = ak_arg_value(n, "key"), v = ak_arg_value(n, "value"), gqa = ak_op_arg_index(n->op, "enable_gqa");
        int64_t nk, nv;
        if (!ak_op_is(n, "aten.scaled_dot_product_attention.default") || k < 0 || v < 0 || gqa < 0) continue;
        int from_k = repeated(g, k, &nk), from_v = repeated(g, v, &nv);
        if (from_k < 0 || from_v < 0 || nk != nv || (n->args[gqa].val.kind == AK_VAL_BOOL && n->args[gqa].val.i)) continue;
        n->args[ak_op_arg_index(n->op, "key")].ids = ak_new_id(g, from_k);
        n->args[ak_op_arg_index(n->op, "value")].ids = ak_new_id(g, from_v);
        n->args[gqa] = (struct ak_garg){.val = {.kind = AK_VAL_BOOL, .i = 1}};
    }
}

/* ---- all of it ---- */

static void drop_effects(struct ak_graph *g) {
    size_t kept = 0;
    for (size_t i = 0; i < g->nnodes; i++)
        if (!(g->nodes[i].op->flags & AK_OP_EFFECT)) g->nodes[kept++] = g->nodes[i];
    g->nnodes = kept;
    for (size_t i = 0; i < kept; i++)
        for (size_t k = 0; k < g->nodes[i].nouts; k++)
            if (g->nodes[i].outs[k] >= 0) g->values[g->nodes[i].outs[k]].node = (int)i;
}

int ak_graph_normalise(struct ak_graph *g, size_t fold_limit, struct ak_err *err) {
    drop_effects(g);
    if (ak_functional(g, err)) return -1;
    if (drop_passing(g, err)) return -1;
    ak_compact(g);
    ak_fold(g, fold_limit);
    ak_compact(g);
    if (infer_all(g, err)) return -1;
    group_queries(g);
    ak_compact(g);
    return infer_all(g, err);
}
