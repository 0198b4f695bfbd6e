/* In-place ops made functional. `now[v]` is the value that holds what v's storage now shows through
 * v: a write through one view changes it for all values over the same storage, so those are made
 * anew from the new storage by their own view ops, and what nobody reads is dropped later. */
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "normalise.h"

struct functional {
    struct ak_graph *g;
    int *now;      /* by value of the graph as it came */
    bool *made;    /* by value: nodes so far have made it; inputs and weights are there from the start */
    size_t nold, cap;
    int *again;    /* by value: made anew by the write at hand, or -1 */
    size_t nagain;
    struct ak_err *err;
};

static void note_made(struct functional *f, int v) {
    while ((size_t)v >= f->cap) {
        size_t cap = 2 * f->cap;
        f->made = ak_realloc(f->made, cap, sizeof *f->made);
        memset(f->made + f->cap, 0, (cap - f->cap) * sizeof *f->made);
        f->cap = cap;
    }
    f->made[v] = true;
}

static int push(struct functional *f, struct ak_node node) {
    struct ak_graph *g = f->g;
    AK_GROW(g->nodes, g->nnodes, g->cap_nodes);
    g->nodes[g->nnodes] = node;
    if (ak_graph_infer(g, (int)g->nnodes++, f->err)) return -1;
    const struct ak_node *n = &g->nodes[g->nnodes - 1];
    for (size_t i = 0; i < n->nouts; i++)
        if (n->outs[i] >= 0) note_made(f, n->outs[i]);
    return 0;
}

/* A new node called after `like`, with its first argument set; the caller sets the others and pushes it. */
static struct ak_node new_node(struct functional *f, const char *op_name, const struct ak_node *like, int first) {
    const struct ak_op *op = ak_op_find(op_name);
    if (!op) {
        ak_fail(f->err, AK_EXIT_INPUT, "node '%s' (%s) writes into a part of a tensor, which wants %s: the op set lacks it", like->name,
                like->op->name, op_name);
        return (struct ak_node){0};
    }
    char *name = ak_asprintf("%s.w%zu", like->name, f->g->nnodes);
    int n = ak_graph_add_node(f->g, op, name);
    struct ak_node node = f->g->nodes[n];
    free(name);
    f->g->nnodes--;
    node.origin = like->origin;
    node.args[0] = (struct ak_garg){.kind = AK_GARG_VALUE, .n = 1, .ids = ak_new_id(f->g, first)};
    return node;
}

static void set_value(struct functional *f, struct ak_node *n, const char *arg, int id) {
    int i = ak_op_arg_index(n->op, arg);
    if (i >= 0) n->args[i] = (struct ak_garg){.kind = AK_GARG_VALUE, .n = 1, .ids = ak_new_id(f->g, id)};
}

static void set_ints(struct functional *f, struct ak_node *n, const char *arg, const int64_t *v, int count) {
    int64_t *copy = ak_arena_alloc(&f->g->arena, ((size_t)count + 1) * sizeof *copy);
    memcpy(copy, v, (size_t)count * sizeof *copy);
    n->args[ak_op_arg_index(n->op, arg)] = (struct ak_garg){.val = {.kind = AK_VAL_INTS, .ints = {copy, (size_t)count}}};
}

static void copy_arg(struct ak_node *to, const struct ak_node *from, const char *arg) {
    int i = ak_op_arg_index(to->op, arg), k = ak_op_arg_index(from->op, arg);
    if (i >= 0 && k >= 0) to->args[i] = from->args[k];
}

static int result(struct functional *f, struct ak_node node) {
    if (!node.op || push(f, node)) return -1;
    return f->g->nodes[f->g->nnodes - 1].outs[0];
}

static int cast(struct functional *f, const struct ak_node *like, int v, enum ak_dtype dtype) {
    if (f->g->values[v].t.dtype == dtype) return v;
    struct ak_node to = new_node(f, "aten.to.dtype", like, v);
    if (!to.op) return -1;
    to.args[ak_op_arg_index(to.op, "dtype")] = (struct ak_garg){.val = {.kind = AK_VAL_INT, .i = dtype}};
    return result(f, to);
}

/* ---- a write through a view ---- */

static int cannot(struct functional *f, const struct ak_node *write, const struct ak_node *view) {
    return ak_fail(f->err, AK_EXIT_INPUT, "node '%s' (%s) writes in place through '%s' (%s), which cannot be made functional: use the "
                   "out-of-place form in the model", write->name, write->op->name, view->name, view->op->name);
}

static int inverse_permute(struct functional *f, const struct ak_node *write, const struct ak_node *view, int r) {
    const struct ak_val *dims = ak_arg_const(view, "dims");
    int64_t back[AK_MAX_DIMS];
    int ndim = f->g->values[r].t.ndim;
    if (!dims || dims->kind != AK_VAL_INTS || dims->ints.n != (size_t)ndim) return cannot(f, write, view);
    for (int i = 0; i < ndim; i++) {
        int64_t d = dims->ints.v[i] + (dims->ints.v[i] < 0 ? ndim : 0);
        back[d] = i;
    }
    struct ak_node n = new_node(f, "aten.permute.default", write, r);
    if (!n.op) return -1;
    set_ints(f, &n, "dims", back, ndim);
    return result(f, n);
}

static void set_int(struct ak_node *n, const char *arg, int64_t v) {
    n->args[ak_op_arg_index(n->op, arg)] = (struct ak_garg){.val = {.kind = AK_VAL_INT, .i = v}};
}

/* The dim along which `part` is a piece of `whole`, and from where; -1 if it is something else. */
static int piece_of(const struct ak_tensor *part, const struct ak_tensor *whole, int64_t *start) {
    int dim = -1;
    if (part->ndim != whole->ndim) return -1;
    for (int d = 0; d < part->ndim; d++) {
        if (part->shape[d] > 1 && part->stride[d] != whole->stride[d]) return -1;
        if (part->shape[d] == whole->shape[d]) continue;
        if (dim >= 0) return -1;
        dim = d;
    }
    int64_t ahead = part->offset - whole->offset;
    if (dim < 0 || whole->stride[dim] <= 0 || ahead < 0 || ahead % whole->stride[dim]) return -1;
    *start = ahead / whole->stride[dim];
    return *start + part->shape[dim] <= whole->shape[dim] ? dim : -1;
}

/* narrow, split, chunk: a slice, whatever they call it; unbind: a row. */
static int put_piece_back(struct functional *f, const struct ak_node *write, const struct ak_node *view, int v, int parent, int r) {
    int64_t start = 0;
    bool row = ak_op_is(view, "aten.unbind.int");
    int dim = row ? 0 : piece_of(&f->g->values[v].t, &f->g->values[parent].t, &start);
    const struct ak_val *along = ak_arg_const(view, "dim");
    if (dim < 0 || (row && !along)) return cannot(f, write, view);
    struct ak_node n = new_node(f, row ? "aten.select_scatter.default" : "aten.slice_scatter.default", write, parent);
    if (!n.op) return -1;
    set_value(f, &n, "src", r);
    set_int(&n, "dim", row ? along->i : dim);
    if (row) {
        set_int(&n, "index", f->g->values[v].index);
    } else {
        set_int(&n, "start", start);
        set_int(&n, "end", start + f->g->values[v].t.shape[dim]);
    }
    return result(f, n);
}

/* The parent of v, which `view` made, with r in place of what v shows. */
static int put_back(struct functional *f, const struct ak_node *write, const struct ak_node *view, int v, int parent, int r) {
    static const char *const same_order[] = {"aten.view.default",    "aten.reshape.default",     "aten._unsafe_view.default", "aten.unsqueeze.default",
                                             "aten.squeeze.default", "aten.squeeze.dim",         "aten.squeeze.dims",         "aten.flatten.using_ints",
                                             "aten.view_as.default", "aten.unflatten.int"};
    static const char *const itself[] = {"aten.alias.default", "aten.detach.default", "aten.contiguous.default"};
    const struct ak_tensor *p = &f->g->values[parent].t;
    struct ak_node n;
    for (size_t i = 0; i < sizeof same_order / sizeof *same_order; i++)
        if (ak_op_is(view, same_order[i])) {
            n = new_node(f, "aten.reshape.default", write, r);
            if (!n.op) return -1;
            set_ints(f, &n, "shape", p->shape, p->ndim);
            return result(f, n);
        }
    for (size_t i = 0; i < sizeof itself / sizeof *itself; i++)
        if (ak_op_is(view, itself[i])) return r;
    if (strncmp(view->op->name, "aten.to.", 8) == 0) return r;
    if (ak_op_is(view, "aten.permute.default")) return inverse_permute(f, write, view, r);
    if (ak_op_is(view, "aten.transpose.int") || ak_op_is(view, "aten.t.default")) {
        n = new_node(f, view->op->name, write, r);
        copy_arg(&n, view, "dim0");
        copy_arg(&n, view, "dim1");
        return result(f, n);
    }
    if (ak_op_is(view, "aten.slice.Tensor") || ak_op_is(view, "aten.select.int")) {
        static const char *const args[] = {"dim", "start", "end", "step", "index"};
        n = new_node(f, ak_op_is(view, "aten.select.int") ? "aten.select_scatter.default" : "aten.slice_scatter.default", write, parent);
        if (!n.op) return -1;
        set_value(f, &n, "src", r);
        for (size_t i = 0; i < sizeof args / sizeof *args; i++)
            copy_arg(&n, view, args[i]);
        return result(f, n);
    }
    return put_piece_back(f, write, view, v, parent, r);
}

/* v as it is after its storage's root has been made anew. */
static int make_again(struct functional *f, int v) {
    struct ak_graph *g = f->g;
    if ((size_t)v < f->nagain && f->again[v] >= 0) return f->again[v];
    int parent = make_again(f, g->values[v].view_of - 1), m = ak_maker(g, v);
    if (parent < 0) return -1;
    if (m < 0) return ak_fail(f->err, AK_EXIT_INPUT, "weight '%s' is written in place, but another weight shares its bytes", g->values[v].name);
    struct ak_node node = ak_clone_node(g, &g->nodes[m]);
    char *name = ak_asprintf("%s.w%zu", node.name, g->nnodes);
    node.name = ak_arena_strdup(&g->arena, name);
    free(name);
    for (size_t i = 0; i < node.op->nargs; i++)
        if (node.args[i].kind == AK_GARG_VALUE && node.args[i].ids[0] == g->values[v].view_of - 1) node.args[i].ids = ak_new_id(g, parent);
    if (push(f, node)) return -1;
    const struct ak_node *was = &g->nodes[m], *is = &g->nodes[g->nnodes - 1];
    for (size_t i = 0; i < was->nouts && i < is->nouts; i++)
        if (was->outs[i] >= 0 && f->again[was->outs[i]] < 0) f->again[was->outs[i]] = is->outs[i];
    return f->again[v];
}

/* The root of v's storage, made anew so that v shows r; or -1. */
static int new_root(struct functional *f, const struct ak_node *write, int v, int r) {
    struct ak_graph *g = f->g;
    while (g->values[v].view_of && r >= 0) {
        int parent = g->values[v].view_of - 1, m = ak_maker(g, v);
        if (m < 0) return ak_fail(f->err, AK_EXIT_INPUT, "weight '%s' is written in place, but it shares its bytes", g->values[v].name);
        struct ak_node view = g->nodes[m]; /* the array may move */
        r = put_back(f, write, &view, v, parent, r);
        v = parent;
    }
    return r;
}

/* r is what v shows now: brings every value over the same storage up to date. Views become views of
 * the new root, v too, so that the next write through any of them is seen by all. Returns v's own. */
static int written(struct functional *f, const struct ak_node *write, int v, int r) {
    struct ak_graph *g = f->g;
    int root = ak_value_root(g, v);
    f->nagain = g->nvalues;
    r = new_root(f, write, v, r);
    if (r < 0) return -1;
    f->again = ak_malloc((f->nagain + 1) * sizeof *f->again);
    for (size_t i = 0; i < f->nagain; i++)
        f->again[i] = -1;
    f->again[root] = r;
    int now = make_again(f, v);
    for (size_t i = 0; i < f->nold && now >= 0; i++) {
        int is = f->now[i];
        if (!f->made[i] || !f->made[is] || g->values[is].kind == AK_VALUE_INT || ak_value_root(g, is) != root) continue;
        f->now[i] = make_again(f, is);
        if (f->now[i] < 0) now = -1;
    }
    free(f->again);
    return now;
}

/* ---- nodes ---- */

/* detach_, transpose_ and the like write nothing: v itself becomes another view of its elements. */
static int relabelled(struct functional *f, int v, int out, int r) {
    for (size_t i = 0; i < f->nold; i++)
        if (f->now[i] == v && f->made[i]) f->now[i] = r;
    if (out < 0) return 0;
    f->now[out] = r;
    note_made(f, out);
    return 0;
}

static int in_place(struct functional *f, struct ak_node node) {
    struct ak_graph *g = f->g;
    const struct ak_op *op = node.op->functional ? ak_op_find(node.op->functional) : NULL;
    int out = node.nouts ? node.outs[0] : -1;
    if (!op || node.args[0].kind != AK_GARG_VALUE)
        return ak_fail(f->err, AK_EXIT_INPUT, "node '%s': the op set has no functional form of %s", node.name, node.op->name);
    int v = node.args[0].ids[0];
    enum ak_dtype dtype = g->values[v].t.dtype;
    struct ak_tensor was = g->values[v].t;
    struct ak_node to = new_node(f, op->name, &node, v);
    to.name = node.name;
    for (size_t i = 1; i < op->nargs; i++)
        copy_arg(&to, &node, op->args[i].name);
    int r = result(f, to);
    if (r >= 0 && g->values[r].view_of) return relabelled(f, v, out, r);
    if (r >= 0) r = cast(f, &node, r, dtype);
    if (r < 0) return -1;
    if (!ak_same_shape(&was, &g->values[r].t))
        return ak_fail(f->err, AK_EXIT_INPUT, "node '%s': %s would change the shape of what it writes", node.name, node.op->name);
    int now = written(f, &node, v, r);
    if (now < 0 || out < 0) return now < 0 ? -1 : 0;
    f->now[out] = now;
    note_made(f, out);
    return 0;
}

static bool any_in_place(const struct ak_graph *g) {
    for (size_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i].op->flags & AK_OP_INPLACE) return true;
    return false;
}

int ak_functional(struct ak_graph *g, struct ak_err *err) {
    if (!any_in_place(g)) return 0;
    struct functional f = {.g = g, .err = err, .nold = g->nvalues, .cap = g->nvalues + 1};
    struct ak_node *old = g->nodes;
    size_t nold = g->nnodes;
    f.now = ak_malloc((f.nold + 1) * sizeof *f.now);
    f.made = ak_calloc(f.cap, sizeof *f.made);
    for (size_t i = 0; i < f.nold; i++) {
        f.now[i] = (int)i;
        f.made[i] = g->values[i].node < 0;
    }
    g->nodes = NULL;
    g->nnodes = g->cap_nodes = 0;
    int rc = 0;
    for (size_t i = 0; i < nold && !rc; i++) {
        ak_substitute(g, &old[i], f.now);
        rc = old[i].op->flags & AK_OP_INPLACE ? in_place(&f, old[i]) : push(&f, old[i]);
    }
    for (size_t i = 0; i < g->noutputs && !rc; i++)
        g->outputs[i] = f.now[g->outputs[i]];
    free(old);
    free(f.now);
    free(f.made);
    return rc;
}
