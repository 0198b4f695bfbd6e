/* Single nodes as calls of the opponents: the same as the reference, whatever form the op comes in. */
#include <math.h>

#include "hand.h"
#include "lower.h"
#include "tap.h"
#include "vendor.h"
#include "verify.h"

enum { MAX_OPERANDS = 4 };

/* An operand "x:2,3,4" is a f32 tensor; "x:2,3,4:swap" the same seen with its dims 1 and 2
 * exchanged; "t:5:int" class indices. The rest are arguments by name: ints, a real, an int. */
struct form {
    const char *what, *op;
    const char *operands[MAX_OPERANDS]; /* by schema position; "" leaves the default */
    const char *args[3];                /* "dim=-1", "dim=[0,1]", "alpha=2", "is_causal=true" */
    enum { NONE, VENDOR, COPY } by;     /* what is to do it; COPY: with a copy of an input */
};

static const struct form forms[] = {
    {"linear of 3 dims", "aten.linear.default", {"x:2,3,8", "w:5,8", "b:5"}, {0}, VENDOR},
    {"linear of a vector", "aten.linear.default", {"x:8", "w:5,8"}, {0}, VENDOR},
    {"linear of a view that does not flatten", "aten.linear.default", {"x:2,3,8,4:swap", "w:5,4"}, {0}, COPY},
    {"addmm", "aten.addmm.default", {"b:5", "x:3,8", "w:8,5"}, {0}, VENDOR},
    {"addmm with alpha", "aten.addmm.default", {"b:5", "x:3,8", "w:8,5"}, {"alpha=2"}, NONE},
    {"addmm with a matrix for bias", "aten.addmm.default", {"b:3,5", "x:3,8", "w:8,5"}, {0}, NONE},
    {"mm", "aten.mm.default", {"x:3,8", "w:8,5"}, {0}, VENDOR},
    {"bmm", "aten.bmm.default", {"x:2,3,8", "w:2,8,5"}, {0}, VENDOR},
    {"matmul of vectors", "aten.matmul.default", {"x:8", "w:8"}, {0}, VENDOR},
    {"matmul of a matrix and a vector", "aten.matmul.default", {"x:3,8", "w:8"}, {0}, VENDOR},
    {"matmul of a vector and matrices", "aten.matmul.default", {"x:8", "w:2,8,5"}, {0}, VENDOR},
    {"matmul of 4 dims by a matrix", "aten.matmul.default", {"x:2,3,4,8", "w:8,5"}, {0}, VENDOR},
    {"matmul of batches", "aten.matmul.default", {"x:2,3,4,8", "w:2,3,8,5"}, {0}, VENDOR},
    {"matmul of one matrix by batches", "aten.matmul.default", {"x:4,8", "w:2,3,8,5"}, {0}, VENDOR},
    {"matmul of transposed heads", "aten.matmul.default", {"x:2,4,3,8:swap", "w:2,3,8,5"}, {0}, COPY},
    {"matmul that broadcasts an inner batch", "aten.matmul.default", {"x:2,1,4,8", "w:2,3,8,5"}, {0}, NONE},
    {"softmax", "aten.softmax.int", {"x:2,3,7"}, {"dim=-1"}, VENDOR},
    {"softmax over another dim", "aten.softmax.int", {"x:2,3,7"}, {"dim=1"}, NONE},
    {"log_softmax", "aten.log_softmax.int", {"x:6,7"}, {"dim=1"}, VENDOR},
    {"layer_norm over two dims", "aten.layer_norm.default", {"x:4,3,5", "", "w:3,5", "b:3,5"}, {"normalized_shape=[3,5]"}, VENDOR},
    {"rms_norm with its default eps", "aten.rms_norm.default", {"x:4,9", "", "w:9"}, {"normalized_shape=[9]"}, VENDOR},
    {"attention", "aten.scaled_dot_product_attention.default", {"q:2,4,3,8:swap", "k:2,3,6,8", "v:2,3,6,8"}, {0}, VENDOR},
    {"causal attention of 3 dims", "aten.scaled_dot_product_attention.default", {"q:2,5,8", "k:2,5,8", "v:2,5,8"}, {"is_causal=true"}, VENDOR},
    {"attention with a mask of rows", "aten.scaled_dot_product_attention.default", {"q:2,3,4,8", "k:2,3,6,8", "v:2,3,6,8", "m:4,6"}, {0}, VENDOR},
    {"cross entropy", "aten.cross_entropy_loss.default", {"x:5,9", "t:5:int"}, {0}, VENDOR},
    {"cross entropy without reduction", "aten.cross_entropy_loss.default", {"x:5,9", "t:5:int"}, {"reduction=0"}, VENDOR},
    {"sum of all", "aten.sum.default", {"x:3,4,5"}, {0}, VENDOR},
    {"sum over an inner dim", "aten.sum.dim_IntList", {"x:3,4,5"}, {"dim=[1]"}, VENDOR},
    {"mean over two dims", "aten.mean.dim", {"x:3,4,5"}, {"dim=[-2,-1]"}, VENDOR},
    {"amax that keeps its dim", "aten.amax.default", {"x:3,4,5"}, {"dim=[1]", "keepdim=true"}, VENDOR},
    {"prod over a dim", "aten.prod.dim_int", {"x:3,4,5"}, {"dim=0"}, VENDOR},
};

static int parse_dims(const char *s, int64_t *dims) {
    int n = 0;
    while (*s && *s != ':') {
        dims[n++] = strtoll(s, (char **)&s, 10);
        if (*s == ',') s++;
    }
    return n;
}

static void set_const(struct ak_graph *g, int n, int arg, struct ak_val v) { g->nodes[n].args[arg] = (struct ak_garg){.kind = AK_GARG_CONST, .val = v}; }

static int swapped(struct ak_graph *g, int v) {
    int n = ak_graph_add_node(g, ak_op_find("aten.transpose.int"), "swapped");
    set_value(g, n, 0, v);
    set_const(g, n, 1, (struct ak_val){.kind = AK_VAL_INT, .i = 1});
    set_const(g, n, 2, (struct ak_val){.kind = AK_VAL_INT, .i = 2});
    must(ak_graph_infer(g, n, &err) == 0, "transpose");
    return g->nodes[n].outs[0];
}

static int operand(struct ak_graph *g, const char *spec) {
    int64_t dims[8];
    char name[2] = {spec[0]};
    int id = value(g, name, AK_VALUE_INPUT, parse_dims(spec + 2, dims), dims);
    if (strstr(spec, ":int")) {
        g->values[id].t.dtype = AK_I64;
        g->values[id].hi = 9;
    }
    int *list = ak_arena_alloc(&g->arena, (g->ninputs + 1) * sizeof *list);
    if (g->ninputs) memcpy(list, g->inputs, g->ninputs * sizeof *list);
    list[g->ninputs++] = id;
    g->inputs = list;
    return strstr(spec, ":swap") ? swapped(g, id) : id;
}

static void set_arg(struct ak_graph *g, int n, const char *spec) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spec, "="), spec);
    const char *v = strchr(spec, '=') + 1;
    int i = ak_op_arg_index(g->nodes[n].op, name);
    must(i >= 0, spec);
    if (*v == 't') {
        set_const(g, n, i, (struct ak_val){.kind = AK_VAL_BOOL, .i = 1});
    } else if (*v == '[') {
        int64_t *ints = ak_arena_alloc(&g->arena, 8 * sizeof *ints);
        size_t count = 0;
        for (v++; *v != ']'; v += *v == ',')
            ints[count++] = strtoll(v, (char **)&v, 10);
        set_const(g, n, i, (struct ak_val){.kind = AK_VAL_INTS, .ints = {ints, count}});
    } else {
        set_const(g, n, i, (struct ak_val){.kind = AK_VAL_INT, .i = atoll(v)});
    }
}

static void build(struct ak_graph *g, const struct form *f) {
    int ids[MAX_OPERANDS], n;
    ak_graph_init(g);
    g->name = "form";
    for (int i = 0; i < MAX_OPERANDS; i++)
        ids[i] = f->operands[i] && *f->operands[i] ? operand(g, f->operands[i]) : -1;
    must(ak_op_find(f->op) != NULL, f->op);
    n = ak_graph_add_node(g, ak_op_find(f->op), "node");
    for (int i = 0; i < MAX_OPERANDS; i++)
        if (ids[i] >= 0) set_value(g, n, (size_t)i, ids[i]);
    for (int i = 0; i < 3 && f->args[i]; i++)
        set_arg(g, n, f->args[i]);
    must(ak_graph_infer(g, n, &err) == 0, f->what);
    outputs(g, 1, g->nodes[n].outs);
}

static void test_form(const struct form *f) {
    struct ak_graph g;
    build(&g, f);
    struct ak_tensor *in = ak_inputs_draw(&g, 5), out[2];
    struct ak_weights *w = ak_weights_new(&g, 0);
    struct ak_exec *x[2];
    for (int k = 0; k < 2; k++) {
        struct ak_exec_options o = {.backend = k ? AK_BACKEND_VENDOR : AK_BACKEND_REFERENCE, .vendor_dir = ak_vendor_dir(), .weights = w};
        x[k] = ak_exec_new(&g, &o, &err);
        must(x[k] && ak_exec_run(x[k], in, &out[k], NULL, &err) == 0, f->what);
    }
    struct ak_diff d = ak_diff_of(&out[1], &out[0]);
    ok(d.scale > 0 && d.err <= 1e-5 * d.scale, "%s: the same as the reference", f->what);
    struct ak_step_info s = ak_exec_step_info(x[1], ak_exec_nsteps(x[1]) - 1);
    ok(strcmp(s.by, f->by == NONE ? "reference" : "vendor") == 0, "%s: by the %s", f->what, f->by == NONE ? "reference" : "opponent");
    struct ak_group group;
    struct ak_arena arena = {0};
    bool viewed = ak_lower(&g, (int)g.nnodes - 1, &group, &arena, &err) == 0;
    ok(viewed == (f->by == VENDOR), "%s: %s views alone", f->what, viewed ? "by" : "not by");
    ak_arena_release(&arena);
    for (int k = 0; k < 2; k++)
        ak_exec_free(x[k]);
    ak_weights_free(w);
    ak_inputs_free(&g, in);
    ak_graph_release(&g);
}

int main(void) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        test_form(&forms[i]);
    return done();
}
