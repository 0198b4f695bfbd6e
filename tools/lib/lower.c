/* A lowering says which kernel call means the same as one node, by views. Where
 * copies are allowed it is tried until it succeeds: an input that cannot be seen as wanted is taken as a row-major copy the next time. */
#include "lower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALL_ARGS = 64 };

struct lower {
    const struct ak_graph *g;
    const struct ak_node *node;
    struct ak_group *out;
    struct ak_arena *arena;
    struct ak_err *err;
    int copied[3];
    size_t ncopied;
    bool may_copy, again; /* another input is to be copied */
};

#define NO(l, ...) (ak_fail((l)->err, AK_EXIT_INPUT, __VA_ARGS__), 1)

static void begin(struct lower *l, const char *type, int n) {
    struct ak_group *o = l->out;
    *o = (struct ak_group){.type = ak_arena_strdup(l->arena, type), .nnodes = 1};
    o->nodes = ak_arena_alloc(l->arena, sizeof *o->nodes);
    o->nodes[0] = n;
    o->args = ak_arena_alloc(l->arena, MAX_CALL_ARGS * sizeof *o->args);
    o->attrs = ak_arena_alloc(l->arena, AK_MAX_ARGS * sizeof *o->attrs);
}

static enum ak_role role_of(const struct ak_graph *g, int value) {
    enum ak_value_kind k = g->values[ak_value_root(g, value)].kind;
    return k == AK_VALUE_FILE || k == AK_VALUE_RANDOM || k == AK_VALUE_INLINE ? AK_ROLE_CONSTANT : AK_ROLE_INPUT;
}

static bool is_copied(const struct lower *l, int value) {
    for (size_t i = 0; i < l->ncopied; i++)
        if (l->copied[i] == value) return true;
    return false;
}

static void push(struct lower *l, const char *name, enum ak_role role, int value, const struct ak_tensor *t) {
    struct ak_group_arg *a = &l->out->args[l->out->nargs++];
    *a = (struct ak_group_arg){.name = ak_arena_strdup(l->arena, name), .role = value < 0 ? AK_ROLE_ABSENT : role, .value = value};
    if (value >= 0) a->t = *t;
}

static void push_in(struct lower *l, const char *name, int value, const struct ak_tensor *t) {
    bool copy = is_copied(l, value);
    push(l, name, value < 0 ? AK_ROLE_ABSENT : copy ? AK_ROLE_INPUT : role_of(l->g, value), value, t);
    l->out->args[l->out->nargs - 1].copy = copy;
}

static struct ak_attr *attr(struct lower *l, const char *name, int type) {
    struct ak_attr *a = &l->out->attrs[l->out->nattrs++];
    *a = (struct ak_attr){.name = ak_arena_strdup(l->arena, name), .type = type};
    return a;
}
static void attr_real(struct lower *l, const char *name, double v) { attr(l, name, AK_ATTR_REAL)->v.f = v; }
static void attr_int(struct lower *l, const char *name, int64_t v) { attr(l, name, AK_ATTR_INT)->v.i = v; }
static void attr_bool(struct lower *l, const char *name, bool v) { attr(l, name, AK_ATTR_BOOL)->v.i = v; }
static void attr_enum(struct lower *l, const char *name, const char *v) {
    attr(l, name, AK_ATTR_ENUM)->v.s = ak_arena_strdup(l->arena, v);
}

/* ---- the node's arguments by their schema names ---- */

static const struct ak_garg *garg(const struct lower *l, const char *name) {
    int i = ak_op_arg_index(l->node->op, name);
    return i < 0 ? NULL : &l->node->args[i];
}

/* The value id of a tensor argument; -1 where there is none. */
static int value_of(const struct lower *l, const char *name) {
    const struct ak_garg *a = garg(l, name);
    return a && a->kind == AK_GARG_VALUE && l->g->values[a->ids[0]].kind != AK_VALUE_INT ? a->ids[0] : -1;
}

static const struct ak_tensor *tensor_of(const struct lower *l, int value) {
    if (value < 0 || !is_copied(l, value)) return value < 0 ? NULL : &l->g->values[value].t;
    struct ak_tensor *t = ak_arena_alloc(l->arena, sizeof *t);
    *t = l->g->values[value].t;
    ak_tensor_pack(t);
    return t;
}

static double number(const struct lower *l, const char *name, double otherwise) {
    const struct ak_garg *a = garg(l, name);
    if (a && a->kind == AK_GARG_VALUE && l->g->values[a->ids[0]].kind == AK_VALUE_INT) return (double)l->g->values[a->ids[0]].ival;
    if (!a || a->kind != AK_GARG_CONST) return otherwise;
    if (a->val.kind == AK_VAL_FLOAT) return a->val.f;
    return a->val.kind == AK_VAL_INT || a->val.kind == AK_VAL_BOOL ? (double)a->val.i : otherwise;
}

static bool given(const struct lower *l, const char *name) {
    const struct ak_garg *a = garg(l, name);
    return a && (a->kind != AK_GARG_CONST || a->val.kind != AK_VAL_NONE);
}

static int64_t *ints_of(const struct lower *l, const char *name, size_t *n) {
    const struct ak_garg *a = garg(l, name);
    *n = 0;
    if (!a || (a->kind != AK_GARG_SYMINTS && (a->kind != AK_GARG_CONST || a->val.kind != AK_VAL_INTS))) return NULL;
    *n = a->val.ints.n;
    int64_t *v = ak_arena_alloc(l->arena, (*n + 1) * sizeof *v);
    for (size_t i = 0; i < *n; i++)
        v[i] = a->kind == AK_GARG_SYMINTS && a->ids[i] >= 0 ? l->g->values[a->ids[i]].ival : a->val.ints.v[i];
    return v;
}


static int output(const struct lower *l) { return l->node->nouts ? l->node->outs[0] : -1; }

/* ---- views ---- */

static int see(struct lower *l, int value, const struct ak_tensor *t, int ndim, const int64_t *shape, struct ak_tensor *view) {
    char buf[160];
    if (ak_tensor_view(t, ndim, shape, view)) return 0;
    if (l->may_copy && value != output(l) && !is_copied(l, value) && l->ncopied < sizeof l->copied / sizeof *l->copied) {
        l->copied[l->ncopied++] = value;
        l->again = true;
    }
    return NO(l, "%s with its strides cannot be seen with %d dims", ak_tensor_describe(t, buf), ndim);
}

static int64_t product(const int64_t *v, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= v[i];
    return n;
}

/* [*, C...] as [R, C] where the last `inner` dims are C. */
static int rows(struct lower *l, int value, int inner, struct ak_tensor *view) {
    const struct ak_tensor *t = tensor_of(l, value);
    int cut = t->ndim - inner;
    return see(l, value, t, 2, (int64_t[]){product(t->shape, 0, cut), product(t->shape, cut, t->ndim)}, view);
}

/* Dims of size 1 put before the others, up to ndim. */
static struct ak_tensor widen(const struct ak_tensor *t, int ndim) {
    struct ak_tensor v = *t;
    int more = ndim - t->ndim;
    for (int i = 0; i < ndim; i++) {
        v.shape[i] = i < more ? 1 : t->shape[i - more];
        v.stride[i] = i < more ? 0 : t->stride[i - more];
    }
    v.ndim = ndim;
    return v;
}

static int64_t normal_dim(int64_t d, int ndim) { return d < 0 ? d + ndim : d; }

/* ---- matmul ---- */

struct operands {
    struct ak_tensor a, b, out; /* at least 2 dims each */
    int va, vb, vbias, vout;
};

static int push_matmul(struct lower *l, const struct operands *m, const struct ak_tensor *a, const struct ak_tensor *b,
                       const struct ak_tensor *out) {
    struct ak_tensor bias = {0};
    const struct ak_tensor *t = tensor_of(l, m->vbias);
    if (t) {
        int64_t n = out->shape[2];
        if (ak_numel(t) != n || t->shape[t->ndim - 1] != n) return NO(l, "the bias is not one row");
        if (see(l, m->vbias, t, 1, &n, &bias)) return 1;
    }
    push_in(l, "a", m->va, a);
    push_in(l, "b", m->vb, b);
    push_in(l, "bias", m->vbias, &bias);
    push(l, "out", AK_ROLE_OUTPUT, m->vout, out);
    return 0;
}

/* One b for all rows of a. */
static int flat_matmul(struct lower *l, const struct operands *m) {
    const struct ak_tensor *a = &m->a;
    int64_t rows_a = product(a->shape, 0, a->ndim - 1), k = a->shape[a->ndim - 1], n = m->b.shape[1];
    struct ak_tensor va, vo, vb = widen(&m->b, 3);
    if (see(l, m->va, a, 3, (int64_t[]){1, rows_a, k}, &va) || see(l, m->vout, &m->out, 3, (int64_t[]){1, rows_a, n}, &vo)) return 1;
    return push_matmul(l, m, &va, &vb, &vo);
}

/* t with its leading dims broadcast to `batch` (all but the last two dims), those seen as one. */
static int batched(struct lower *l, int value, const struct ak_tensor *t, int nbatch, const int64_t *batch, struct ak_tensor *view) {
    struct ak_tensor wide = widen(t, nbatch + 2);
    for (int i = 0; i < nbatch; i++)
        if (wide.shape[i] != batch[i]) {
            wide.shape[i] = batch[i];
            wide.stride[i] = 0;
        }
    return see(l, value, &wide, 3, (int64_t[]){product(batch, 0, nbatch), wide.shape[nbatch], wide.shape[nbatch + 1]}, view);
}

static int batch_matmul(struct lower *l, const struct operands *m) {
    int nbatch = (m->a.ndim > m->b.ndim ? m->a.ndim : m->b.ndim) - 2;
    struct ak_tensor a = widen(&m->a, nbatch + 2), b = widen(&m->b, nbatch + 2), va, vb, vo;
    int64_t batch[AK_MAX_DIMS];
    for (int i = 0; i < nbatch; i++)
        batch[i] = a.shape[i] == 1 ? b.shape[i] : a.shape[i];
    int64_t out[3] = {product(batch, 0, nbatch), a.shape[nbatch], b.shape[nbatch + 1]};
    if (batched(l, m->va, &a, nbatch, batch, &va) || batched(l, m->vb, &b, nbatch, batch, &vb) || see(l, m->vout, &m->out, 3, out, &vo)) return 1;
    return push_matmul(l, m, &va, &vb, &vo);
}

static struct ak_tensor transposed(struct ak_tensor t) {
    int64_t n = t.shape[0], s = t.stride[0];
    t.shape[0] = t.shape[1], t.stride[0] = t.stride[1];
    t.shape[1] = n, t.stride[1] = s;
    return t;
}

static int lower_linear(struct lower *l) {
    struct operands m = {.va = value_of(l, "input"), .vb = value_of(l, "weight"), .vbias = value_of(l, "bias"), .vout = output(l)};
    m.a = *tensor_of(l, m.va), m.out = *tensor_of(l, m.vout);
    if (tensor_of(l, m.vb)->ndim != 2 || m.a.ndim < 1) return NO(l, "the weight is not a matrix");
    m.b = transposed(*tensor_of(l, m.vb));
    return flat_matmul(l, &m);
}

static int lower_matmul(struct lower *l) {
    const char *first = strncmp(l->node->op->name, "aten.matmul", 11) == 0 ? "other" : "mat2";
    struct operands m = {.va = value_of(l, "self"), .vb = value_of(l, first), .vbias = -1, .vout = output(l)};
    m.a = *tensor_of(l, m.va), m.b = *tensor_of(l, m.vb), m.out = *tensor_of(l, m.vout);
    if (m.a.ndim < 1 || m.b.ndim < 1) return NO(l, "an operand is a scalar");
    if (m.a.ndim == 1) m.a = widen(&m.a, 2);
    if (m.b.ndim == 1) {
        m.b.shape[1] = 1, m.b.stride[1] = 1;
        m.b.ndim = 2;
    }
    return m.b.ndim == 2 ? flat_matmul(l, &m) : batch_matmul(l, &m);
}

static int lower_addmm(struct lower *l) {
    struct operands m = {.va = value_of(l, "mat1"), .vb = value_of(l, "mat2"), .vbias = value_of(l, "self"), .vout = output(l)};
    if (number(l, "alpha", 1) != 1 || number(l, "beta", 1) != 1) return NO(l, "alpha or beta is not 1");
    m.a = *tensor_of(l, m.va), m.b = *tensor_of(l, m.vb), m.out = *tensor_of(l, m.vout);
    return tensor_of(l, m.vbias)->ndim < 1 ? NO(l, "the bias is a scalar") : flat_matmul(l, &m);
}

/* ---- rows ---- */

static int push_rows(struct lower *l, const char *name, int value, int inner, bool is_out) {
    struct ak_tensor v = {0};
    if (value >= 0 && rows(l, value, inner, &v)) return 1;
    if (is_out)
        push(l, name, AK_ROLE_OUTPUT, value, &v);
    else
        push_in(l, name, value, &v);
    return 0;
}

static int lower_softmax(struct lower *l) {
    int x = value_of(l, "self"), out = output(l);
    const struct ak_tensor *t = tensor_of(l, x);
    if (t->ndim < 1 || normal_dim((int64_t)number(l, "dim", -1), t->ndim) != t->ndim - 1) return NO(l, "it is not over the last dim");
    if (tensor_of(l, out)->dtype != t->dtype) return NO(l, "it changes the dtype");
    attr_bool(l, "log", strstr(l->node->op->name, "log_softmax") != NULL);
    return push_rows(l, "x", x, 1, false) || push_rows(l, "out", out, 1, true);
}

/* A weight or bias of the normalised dims as one row. */
static int push_row(struct lower *l, const char *name, int value) {
    struct ak_tensor v = {0};
    if (value >= 0 && see(l, value, tensor_of(l, value), 1, (int64_t[]){ak_numel(tensor_of(l, value))}, &v)) return 1;
    push_in(l, name, value, &v);
    return 0;
}

static int lower_norm(struct lower *l, bool layer) {
    size_t inner;
    ints_of(l, "normalized_shape", &inner);
    int x = value_of(l, "input"), out = output(l);
    for (size_t i = 1; i < l->node->nouts; i++)
        if (l->node->outs[i] >= 0) return NO(l, "its statistics are used");
    double eps = number(l, "eps", NAN);
    if (isnan(eps)) {
        if (tensor_of(l, x)->dtype != AK_F32) return NO(l, "its eps is the default of another dtype than f32");
        eps = ak_dtype_eps(AK_F32);
    }
    attr_real(l, "eps", eps);
    if (push_rows(l, "x", x, (int)inner, false)) return 1;
    push(l, "residual", AK_ROLE_ABSENT, -1, NULL);
    if (push_row(l, "weight", value_of(l, "weight")) || (layer && push_row(l, "bias", value_of(l, "bias")))) return 1;
    if (push_rows(l, "out", out, (int)inner, true)) return 1;
    push(l, "sum", AK_ROLE_ABSENT, -1, NULL);
    return 0;
}

static int lower_layer_norm(struct lower *l) { return lower_norm(l, true); }
static int lower_rms_norm(struct lower *l) { return lower_norm(l, false); }

/* ---- attention ---- */

static int lower_attention(struct lower *l) {
    int q = value_of(l, "query"), k = value_of(l, "key"), v = value_of(l, "value"), mask = value_of(l, "attn_mask"), out = output(l);
    int ndim = tensor_of(l, q)->ndim;
    if (ndim > 4 || ndim < 2 || tensor_of(l, k)->ndim != ndim || tensor_of(l, v)->ndim != ndim) return NO(l, "not 2 to 4 dims");
    if (number(l, "dropout_p", 0) != 0) return NO(l, "it drops out");
    struct ak_tensor tq = widen(tensor_of(l, q), 4), tk = widen(tensor_of(l, k), 4), tv = widen(tensor_of(l, v), 4),
                     to = widen(tensor_of(l, out), 4), tm = {0};
    if (tk.shape[0] != tq.shape[0] || tv.shape[0] != tq.shape[0] || tk.shape[1] != tv.shape[1] || tk.shape[1] == 0 ||
        tq.shape[1] % tk.shape[1])
        return NO(l, "its batches or heads differ");
    if (mask >= 0) {
        if (tensor_of(l, mask)->ndim > 4) return NO(l, "the mask has more than 4 dims");
        tm = widen(tensor_of(l, mask), 4);
        if (tm.shape[3] != tk.shape[2]) tm.shape[3] = tk.shape[2], tm.stride[3] = 0;
    }
    attr_real(l, "scale", number(l, "scale", 1 / sqrt((double)tq.shape[3])));
    attr_bool(l, "causal", number(l, "is_causal", 0) != 0);
    push_in(l, "q", q, &tq);
    push_in(l, "k", k, &tk);
    push_in(l, "v", v, &tv);
    push_in(l, "mask", mask, &tm);
    push(l, "out", AK_ROLE_OUTPUT, out, &to);
    return 0;
}

/* ---- losses and reductions ---- */

static int lower_cross_entropy(struct lower *l) {
    static const char *const reductions[] = {"none", "mean", "sum"};
    int x = value_of(l, "self"), target = value_of(l, "target"), out = output(l);
    int ndim = tensor_of(l, x)->ndim;
    int64_t reduction = (int64_t)number(l, "reduction", 1);
    if (value_of(l, "weight") >= 0) return NO(l, "its classes are weighted");
    if (ndim > 2 || ndim < 1 || tensor_of(l, target)->ndim != ndim - 1 || tensor_of(l, target)->dtype != AK_I64)
        return NO(l, "not rows of logits with a class each");
    if (reduction < 0 || reduction > 2) return NO(l, "unknown reduction");
    struct ak_tensor tx = widen(tensor_of(l, x), 2), tt = widen(tensor_of(l, target), 1), to = *tensor_of(l, out);
    if (reduction == 0) to = widen(&to, 1);
    attr_enum(l, "reduction", reductions[reduction]);
    attr_int(l, "ignore_index", (int64_t)number(l, "ignore_index", -100));
    attr_real(l, "label_smoothing", number(l, "label_smoothing", 0));
    push_in(l, "logits", x, &tx);
    push_in(l, "target", target, &tt);
    push(l, "loss", AK_ROLE_OUTPUT, out, &to);
    return 0;
}

/* The reduced dims [*from, *to) if they lie side by side. */
static int reduced(struct lower *l, int ndim, int *from, int *to) {
    size_t n;
    int64_t *dims = ints_of(l, "dim", &n), one = (int64_t)number(l, "dim", 0);
    if (!dims && given(l, "dim")) dims = &one, n = 1;
    bool hit[AK_MAX_DIMS] = {false};
    for (size_t i = 0; i < n; i++)
        hit[normal_dim(dims[i], ndim)] = true;
    for (*from = 0; n && !hit[*from];)
        ++*from;
    for (*to = n ? *from : ndim; *to < ndim && hit[*to];)
        ++*to;
    for (int i = *to; i < ndim; i++)
        if (hit[i]) return NO(l, "the reduced dims do not lie side by side");
    return 0;
}

static int lower_reduce(struct lower *l) {
    static const char *const ops[] = {"sum", "mean", "amax", "amin", "prod"};
    int x = value_of(l, "self"), out = output(l), from, to;
    const struct ak_tensor *t = tensor_of(l, x);
    if (!ak_dtype_is_float(t->dtype) || tensor_of(l, out)->dtype != t->dtype) return NO(l, "it changes the dtype");
    if (t->ndim < 1 || reduced(l, t->ndim, &from, &to)) return 1;
    int64_t o = product(t->shape, 0, from), c = product(t->shape, from, to), i = product(t->shape, to, t->ndim);
    struct ak_tensor vx, vo;
    if (see(l, x, t, 3, (int64_t[]){o, c, i}, &vx) || see(l, out, tensor_of(l, out), 2, (int64_t[]){o, i}, &vo)) return 1;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strncmp(l->node->op->name + 5, ops[k], strlen(ops[k])) == 0) attr_enum(l, "op", ops[k]);
    push_in(l, "x", x, &vx);
    push(l, "out", AK_ROLE_OUTPUT, out, &vo);
    return 0;
}

/* ---- the table ---- */

static const struct {
    const char *op, *type;
    int (*lower)(struct lower *);
} lowerings[] = {
    {"aten.linear.default", "matmul", lower_linear},
    {"aten.addmm.default", "matmul", lower_addmm},
    {"aten.mm.default", "matmul", lower_matmul},
    {"aten.bmm.default", "matmul", lower_matmul},
    {"aten.matmul.default", "matmul", lower_matmul},
    {"aten.softmax.int", "softmax", lower_softmax},
    {"aten._softmax.default", "softmax", lower_softmax},
    {"aten.log_softmax.int", "softmax", lower_softmax},
    {"aten._log_softmax.default", "softmax", lower_softmax},
    {"aten.layer_norm.default", "layernorm", lower_layer_norm},
    {"aten.native_layer_norm.default", "layernorm", lower_layer_norm},
    {"aten.rms_norm.default", "rmsnorm", lower_rms_norm},
    {"aten.scaled_dot_product_attention.default", "flash_attention", lower_attention},
    {"aten.cross_entropy_loss.default", "cross_entropy", lower_cross_entropy},
    {"aten.sum.default", "reduce", lower_reduce},
    {"aten.sum.dim_IntList", "reduce", lower_reduce},
    {"aten.mean.default", "reduce", lower_reduce},
    {"aten.mean.dim", "reduce", lower_reduce},
    {"aten.amax.default", "reduce", lower_reduce},
    {"aten.amin.default", "reduce", lower_reduce},
    {"aten.prod.default", "reduce", lower_reduce},
    {"aten.prod.dim_int", "reduce", lower_reduce},
};

/* A type's tensors are all of the spec's dtype, but for a mask and class indices. */
static int check_dtypes(struct lower *l) {
    enum ak_dtype s = l->out->args[0].t.dtype;
    if (!ak_dtype_is_float(s) || s == AK_F64) return NO(l, "there are no kernels for %s", ak_dtype_name(s));
    for (size_t i = 0; i < l->out->nargs; i++) {
        const struct ak_group_arg *a = &l->out->args[i];
        bool free_dtype = strcmp(a->name, "target") == 0 || (strcmp(a->name, "mask") == 0 && a->t.dtype == AK_BOOL);
        if (a->role != AK_ROLE_ABSENT && a->t.dtype != s && !free_dtype)
            return NO(l, "argument '%s' is %s, not %s", a->name, ak_dtype_name(a->t.dtype), ak_dtype_name(s));
    }
    return 0;
}

static int lower(const struct ak_graph *g, int n, bool may_copy, struct ak_group *out, struct ak_arena *a, struct ak_err *err) {
    struct lower l = {.g = g, .node = &g->nodes[n], .out = out, .arena = a, .err = err, .may_copy = may_copy};
    for (size_t i = 0; i < sizeof lowerings / sizeof *lowerings; i++) {
        if (strcmp(lowerings[i].op, l.node->op->name) != 0) continue;
        if (output(&l) < 0) return NO(&l, "nobody reads it");
        do {
            begin(&l, lowerings[i].type, n);
            l.again = false;
            if (lowerings[i].lower(&l) == 0) return check_dtypes(&l);
        } while (l.again);
        return 1;
    }
    return NO(&l, "'%s' is no kernel type by itself", l.node->op->name);
}

int ak_lower(const struct ak_graph *g, int n, struct ak_group *out, struct ak_arena *a, struct ak_err *err) {
    return lower(g, n, false, out, a, err);
}

int ak_lower_copying(const struct ak_graph *g, int n, struct ak_group *out, struct ak_arena *a, struct ak_err *err) {
    return lower(g, n, true, out, a, err);
}

/* ---- the ATen op itself ---- */

static bool starts(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

static int aten_attr(struct lower *l, const struct ak_op_arg *schema, const struct ak_val *v) {
    bool real = starts(schema->type, "Scalar") && !starts(schema->type, "ScalarType");
    real = real || starts(schema->type, "float") || starts(schema->type, "Tensor");
    switch (v->kind) {
    case AK_VAL_NONE: return 0;
    case AK_VAL_FLOAT: attr_real(l, schema->name, v->f); return 0;
    case AK_VAL_BOOL: attr_bool(l, schema->name, v->i != 0); return 0;
    case AK_VAL_STR: attr_enum(l, schema->name, v->s); return 0;
    case AK_VAL_INT:
        if (real)
            attr_real(l, schema->name, (double)v->i);
        else
            attr_int(l, schema->name, v->i);
        return 0;
    default: return NO(l, "argument '%s' is no attribute", schema->name);
    }
}

static int aten_arg(struct lower *l, size_t i) {
    const struct ak_op_arg *schema = &l->node->op->args[i];
    const struct ak_garg *a = &l->node->args[i];
    bool tensor = starts(schema->type, "Tensor");
    if (l->out->nargs + a->n + 1 > MAX_CALL_ARGS - AK_MAX_OUTS) return NO(l, "it has too many arguments");
    if (a->kind == AK_GARG_VALUES) {
        for (size_t k = 0; k < a->n; k++)
            push_in(l, schema->name, a->ids[k], tensor_of(l, a->ids[k]));
        return 0;
    }
    if (tensor) {
        int v = value_of(l, schema->name);
        push_in(l, schema->name, v, tensor_of(l, v));
        if (v >= 0) return 0;
    }
    if (a->kind == AK_GARG_VALUE) {
        const struct ak_val v = {.kind = AK_VAL_INT, .i = l->g->values[a->ids[0]].ival};
        return aten_attr(l, schema, &v);
    }
    size_t n;
    const int64_t *ints = ints_of(l, schema->name, &n);
    if (!ints) return aten_attr(l, schema, &a->val);
    struct ak_attr *out = attr(l, schema->name, AK_ATTR_INTS);
    out->n = (int32_t)n;
    out->v.ints = ints;
    return 0;
}

int ak_lower_aten(const struct ak_graph *g, int n, struct ak_group *out, struct ak_arena *a, struct ak_err *err) {
    struct lower l = {.g = g, .node = &g->nodes[n], .out = out, .arena = a, .err = err};
    begin(&l, l.node->op->name, n);
    for (size_t i = 0; i < l.node->op->nargs; i++)
        if (aten_arg(&l, i)) return 1;
    for (size_t i = 0; i < l.node->nouts; i++) {
        int v = l.node->outs[i];
        push(&l, "out", AK_ROLE_OUTPUT, v, tensor_of(&l, v));
    }
    return 0;
}
