/* Constant folding by running the reference, and attention masks recognised by value.
 *
 * A value is known when its elements have been computed: inline constants, small weights, and what
 * nodes make of known values alone. A known value becomes an inline constant where something that
 * is not known reads it; views of weights, and what is larger than the limit, stay nodes. Masks are
 * only looked at, so they may be larger. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "group.h"
#include "normalise.h"
#include "rand.h"

enum { SMALL_WEIGHT = 64 << 10, LARGEST = 256 << 20 };

struct fold {
    struct ak_graph *g;
    size_t limit;
    struct ak_tensor *t; /* by value: data set where known */
    bool *known;
    bool *symbolic; /* by value: known, but only for this binding of the symbols */
    bool specialised;
    void **owned;
    size_t nowned, cap;
    struct ak_arena scratch;
};

static void *own(struct fold *f, size_t bytes) {
    AK_GROW(f->owned, f->nowned, f->cap);
    return f->owned[f->nowned++] = ak_calloc(bytes + 1, 1);
}

/* ---- sources ---- */

static bool read_bytes(const char *path, int64_t at, void *p, size_t n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0;
    for (size_t done = 0; ok && done < n;) {
        ssize_t got = pread(fd, (char *)p + done, n - done, at + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        ok = got > 0;
        done += ok ? (size_t)got : 0;
    }
    if (fd >= 0) close(fd);
    return ok;
}

/* Makes an inline constant or a small weight known, if v is one. */
static void load(struct fold *f, int id) {
    const struct ak_value *v = &f->g->values[id];
    if (f->known[id]) return;
    if (v->view_of) {
        int root = v->view_of - 1;
        load(f, root);
        f->known[id] = f->known[root] && v->t.dtype == f->t[root].dtype;
        f->t[id].data = f->t[root].data;
        return;
    }
    if (v->kind == AK_VALUE_INLINE) {
        f->t[id].data = v->data;
        f->known[id] = true;
    } else if (v->kind == AK_VALUE_FILE && v->bytes <= SMALL_WEIGHT) {
        f->t[id].data = own(f, (size_t)v->bytes);
        f->known[id] = read_bytes(f->g->files[v->file], v->at, f->t[id].data, (size_t)v->bytes);
    } else if (v->kind == AK_VALUE_RANDOM && ak_extent(&v->t) * (int64_t)ak_dtype_size(v->t.dtype) <= SMALL_WEIGHT) {
        f->t[id].data = own(f, (size_t)ak_extent(&v->t) * ak_dtype_size(v->t.dtype));
        ak_rand_fill_normal(&f->t[id], v->seed, v->mean, v->std);
        f->known[id] = true;
    }
}

static bool arg_known(struct fold *f, int id, bool *symbolic) {
    if (id < 0) return true;
    enum ak_value_kind k = f->g->values[id].kind;
    if (k == AK_VALUE_INT) *symbolic |= f->g->nsymbols > 0;
    if (k == AK_VALUE_INT) return true;
    if (k == AK_VALUE_FILE || k == AK_VALUE_RANDOM || k == AK_VALUE_INLINE) load(f, id);
    *symbolic |= f->symbolic[id];
    return f->known[id];
}

/* Ops that read of their first argument nothing but its shape. */
static bool wants_shape_only(const struct ak_node *n) {
    static const char *const names[] = {"aten.new_ones.default",  "aten.new_zeros.default", "aten.new_full.default", "aten.ones_like.default",
                                        "aten.zeros_like.default", "aten.full_like.default"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ak_op_is(n, names[i])) return true;
    return false;
}

/* What nodes make comes first, so that a weight is read only where all else is known. */
static bool args_known(struct fold *f, const struct ak_node *n, bool *symbolic) {
    size_t from = wants_shape_only(n);
    *symbolic |= from && f->g->nsymbols > 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = from; i < n->op->nargs; i++)
            for (size_t k = 0; n->args[i].kind != AK_GARG_CONST && k < n->args[i].n; k++) {
                int id = n->args[i].ids[k];
                if (id < 0) continue;
                enum ak_value_kind kind = f->g->values[id].kind;
                bool made = kind == AK_VALUE_NODE || kind == AK_VALUE_INPUT;
                if (pass ? !made && !arg_known(f, id, symbolic) : made && !arg_known(f, id, symbolic)) return false;
            }
    return true;
}

/* ---- evaluation ---- */

static bool fits(const struct ak_opcall *call) {
    for (size_t i = 0; i < call->nout; i++)
        if (!call->alias[i] && ak_extent(&call->out[i]) > (int64_t)LARGEST / (int64_t)ak_dtype_size(call->out[i].dtype)) return false;
    return true;
}

static bool run(struct fold *f, struct ak_opcall *call) {
    struct ak_err err;
    if (ak_op_infer(call, &err) || call->is_int || !fits(call)) return false;
    for (size_t i = 0; i < call->nout; i++)
        call->out[i].data = call->alias[i] ? call->in[call->alias[i] - 1].t->data
                                           : own(f, (size_t)ak_extent(&call->out[i]) * ak_dtype_size(call->out[i].dtype));
    return ak_op_run(call, &err) == 0;
}

static void evaluate(struct fold *f, int n) {
    const struct ak_node *node = &f->g->nodes[n];
    struct ak_opcall call;
    struct ak_err err;
    bool symbolic = false;
    if (node->op->flags & (AK_OP_RANDOM | AK_OP_EFFECT | AK_OP_INPLACE) || !args_known(f, node, &symbolic)) return;
    if (ak_graph_call(f->g, n, f->t, &f->scratch, &call, &err) == 0 && run(f, &call))
        for (size_t i = 0; i < node->nouts; i++) {
            int v = node->outs[i];
            if (v < 0) continue;
            f->t[v] = call.out[i];
            f->known[v] = true;
            f->symbolic[v] = symbolic;
        }
    ak_arena_release(&f->scratch);
}

/* ---- masks ---- */

enum mask { SOME_MASK, NO_MASK, CAUSAL_MASK };

/* Whether an element lets attention through: 1, 0, or -1 where it is a bias. exp(score - 1e9) is 0
 * beside any score a model has; half precision ends at 65504. */
static int lets_through(const struct ak_tensor *m, int64_t at) {
    double v = ak_load(m->dtype, m->data, at);
    if (m->dtype == AK_BOOL) return v != 0;
    if (v == 0) return 1;
    return v <= (m->dtype == AK_F16 ? -3e4 : -1e9) ? 0 : -1;
}

/* One matrix of the mask; *all and *causal stay true while it is so. */
static void look(const struct ak_tensor *m, int64_t at, bool *all, bool *causal) {
    int64_t rows = m->shape[m->ndim - 2], cols = m->shape[m->ndim - 1];
    for (int64_t s = 0; s < rows && (*all || *causal); s++)
        for (int64_t t = 0; t < cols; t++) {
            int through = lets_through(m, at + s * m->stride[m->ndim - 2] + t * m->stride[m->ndim - 1]);
            *all &= through == 1;
            *causal &= through == (t <= s);
        }
}

static enum mask mask_of(const struct ak_tensor *m, int64_t queries, int64_t keys) {
    bool all = true, causal = m->ndim >= 2 && m->shape[m->ndim - 2] == queries && m->shape[m->ndim - 1] == keys;
    if (m->ndim < 2 || ak_numel(m) == 0 || (m->dtype != AK_BOOL && !ak_dtype_is_float(m->dtype))) return SOME_MASK;
    struct ak_tensor outer = *m; /* the dims before the last two, stretched ones once */
    outer.ndim -= 2;
    for (int d = 0; d < outer.ndim; d++)
        if (outer.stride[d] == 0) outer.shape[d] = 1;
    for (int64_t i = 0; i < ak_numel(&outer) && (all || causal); i++)
        look(m, ak_index(&outer, i), &all, &causal);
    return all ? NO_MASK : causal ? CAUSAL_MASK : SOME_MASK;
}

static void drop_mask(struct fold *f, struct ak_node *n) {
    const struct ak_graph *g = f->g;
    int mask = ak_op_arg_index(n->op, "attn_mask"), flag = ak_op_arg_index(n->op, "is_causal");
    int m = ak_arg_value(n, "attn_mask"), q = ak_arg_value(n, "query"), k = ak_arg_value(n, "key");
    bool symbolic = false;
    if (m < 0 || q < 0 || k < 0 || flag < 0 || !arg_known(f, m, &symbolic)) return;
    const struct ak_tensor *qt = &g->values[q].t, *kt = &g->values[k].t;
    if (qt->ndim < 2 || kt->ndim < 2) return;
    enum mask is = mask_of(&f->t[m], qt->shape[qt->ndim - 2], kt->shape[kt->ndim - 2]);
    if (is == SOME_MASK) return;
    n->args[mask] = (struct ak_garg){0};
    if (is == CAUSAL_MASK) n->args[flag] = (struct ak_garg){.val = {.kind = AK_VAL_BOOL, .i = 1}};
    f->specialised |= symbolic;
}

/* ---- constants ---- */

/* A known value's elements as bytes of its own: its range of the storage where that is no larger
 * than the elements, else the elements in a row. */
static struct ak_tensor own_layout(const struct ak_tensor *t, int64_t *bytes) {
    struct ak_tensor out = *t, packed = ak_tensor_new(t->dtype, t->ndim, t->shape);
    int64_t range = ak_extent(t) > 0 ? ak_extent(t) - t->offset : 0;
    out.offset = 0;
    if (range > ak_numel(t)) out = packed;
    out.data = NULL;
    *bytes = ak_extent(&out) * (int64_t)ak_dtype_size(out.dtype);
    return out;
}

static bool can_inline(const struct fold *f, int v) {
    int64_t bytes;
    own_layout(&f->t[v], &bytes);
    return f->known[v] && f->g->values[ak_value_root(f->g, v)].kind == AK_VALUE_NODE && (uint64_t)bytes <= f->limit;
}

static void make_inline(struct fold *f, int id) {
    struct ak_value *v = &f->g->values[id];
    const struct ak_tensor *t = &f->t[id];
    int64_t bytes;
    struct ak_tensor out = own_layout(t, &bytes);
    size_t size = ak_dtype_size(t->dtype);
    v->data = ak_arena_alloc(&f->g->arena, (size_t)bytes + 1);
    out.data = v->data;
    if (memcmp(out.stride, t->stride, (size_t)t->ndim * sizeof *t->stride)) {
        for (int64_t i = 0; i < ak_numel(t); i++)
            memcpy((char *)out.data + (size_t)i * size, (char *)t->data + (size_t)ak_index(t, i) * size, size);
    } else if (bytes) {
        memcpy(out.data, (char *)t->data + (size_t)t->offset * size, (size_t)bytes);
    }
    out.data = NULL;
    v->kind = AK_VALUE_INLINE;
    v->t = out;
    v->bytes = bytes;
    v->view_of = 0;
    v->node = -1;
    f->specialised |= f->symbolic[id];
}

/* Whether every output of node n that is needed can be a constant. */
static bool all_inline(const struct fold *f, const struct ak_node *n, const bool *need) {
    for (size_t i = 0; i < n->nouts; i++)
        if (n->outs[i] >= 0 && need[n->outs[i]] && !can_inline(f, n->outs[i])) return false;
    return true;
}

static void need_args(const struct ak_node *n, bool *need) {
    for (size_t i = 0; i < n->op->nargs; i++)
        for (size_t k = 0; n->args[i].kind != AK_GARG_CONST && k < n->args[i].n; k++)
            if (n->args[i].ids[k] >= 0) need[n->args[i].ids[k]] = true;
}

/* From the last node to the first: constants end the need for what they were made of. */
static void make_constants(struct fold *f) {
    struct ak_graph *g = f->g;
    bool *need = ak_calloc(g->nvalues + 1, sizeof *need), *constant = ak_calloc(g->nnodes + 1, sizeof *constant);
    for (size_t i = 0; i < g->noutputs; i++)
        need[g->outputs[i]] = true;
    for (size_t i = g->nnodes; i-- > 0;) {
        const struct ak_node *n = &g->nodes[i];
        constant[i] = all_inline(f, n, need);
        for (size_t k = 0; k < n->nouts && !constant[i]; k++)
            if (n->outs[k] >= 0 && need[n->outs[k]]) {
                need_args(n, need);
                break;
            }
    }
    size_t kept = 0;
    for (size_t i = 0; i < g->nnodes; i++) {
        const struct ak_node *n = &g->nodes[i];
        for (size_t k = 0; k < n->nouts && constant[i]; k++)
            if (n->outs[k] >= 0 && need[n->outs[k]]) make_inline(f, n->outs[k]);
        if (!constant[i]) g->nodes[kept++] = *n;
    }
    g->nnodes = kept;
    free(need);
    free(constant);
}

static bool same_constant(const struct ak_value *a, const struct ak_value *b) {
    return a->kind == AK_VALUE_INLINE && b->kind == AK_VALUE_INLINE && !a->view_of && !b->view_of && a->t.dtype == b->t.dtype &&
           ak_same_shape(&a->t, &b->t) && a->t.offset == b->t.offset &&
           memcmp(a->t.stride, b->t.stride, (size_t)a->t.ndim * sizeof *a->t.stride) == 0 && a->bytes == b->bytes &&
           memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

/* Layers often make the same constant each for itself. */
static void share_constants(struct ak_graph *g) {
    int *map = ak_malloc((g->nvalues + 1) * sizeof *map), *constants = ak_malloc((g->nvalues + 1) * sizeof *constants);
    size_t n = 0;
    for (size_t i = 0; i < g->nvalues; i++) {
        map[i] = (int)i;
        if (g->values[i].kind != AK_VALUE_INLINE) continue;
        for (size_t k = 0; k < n && map[i] == (int)i; k++)
            if (same_constant(&g->values[constants[k]], &g->values[i])) map[i] = constants[k];
        if (map[i] == (int)i) constants[n++] = (int)i;
    }
    for (size_t i = 0; i < g->nnodes; i++)
        ak_substitute(g, &g->nodes[i], map);
    free(map);
    free(constants);
}

/* ---- symbols ---- */

static void freeze_arg(struct ak_graph *g, struct ak_garg *a) {
    if (a->kind == AK_GARG_VALUE && g->values[a->ids[0]].kind == AK_VALUE_INT)
        *a = (struct ak_garg){.val = {.kind = AK_VAL_INT, .i = g->values[a->ids[0]].ival}};
    else if (a->kind == AK_GARG_SYMINTS)
        *a = (struct ak_garg){.val = a->val};
}

/* Integers become constants, once nothing can change them. */
static void freeze(struct ak_graph *g) {
    for (size_t i = 0; i < g->nnodes; i++)
        for (size_t k = 0; k < g->nodes[i].op->nargs; k++)
            freeze_arg(g, &g->nodes[i].args[k]);
    for (size_t i = 0; i < g->ninputs; i++)
        for (int d = 0; d < AK_MAX_DIMS; d++)
            g->values[g->inputs[i]].sym[d] = NULL;
    g->nsymbols = 0;
}

void ak_fold(struct ak_graph *g, size_t limit) {
    struct fold f = {.g = g, .limit = limit};
    f.t = ak_malloc((g->nvalues + 1) * sizeof *f.t);
    f.known = ak_calloc(g->nvalues + 1, sizeof *f.known);
    f.symbolic = ak_calloc(g->nvalues + 1, sizeof *f.symbolic);
    for (size_t i = 0; i < g->nvalues; i++)
        f.t[i] = g->values[i].t;
    for (size_t i = 0; i < g->nnodes; i++) {
        if (ak_op_is(&g->nodes[i], "aten.scaled_dot_product_attention.default")) drop_mask(&f, &g->nodes[i]);
        evaluate(&f, (int)i);
    }
    make_constants(&f);
    share_constants(g);
    if (f.specialised || !g->nsymbols) freeze(g);
    for (size_t i = 0; i < f.nowned; i++)
        free(f.owned[i]);
    free(f.owned);
    free(f.t);
    free(f.known);
    free(f.symbolic);
}
