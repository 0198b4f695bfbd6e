/* Graphs: inference, users, JSON, and the normal form on small graphs made by hand. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

#include "tap.h"

static struct ak_err err;

/* ---- building by hand ---- */

static struct ak_garg val(struct ak_graph *g, int id) {
    int *ids = ak_arena_alloc(&g->arena, sizeof *ids);
    *ids = id;
    return (struct ak_garg){.kind = AK_GARG_VALUE, .ids = ids, .n = 1};
}
static struct ak_garg list(struct ak_graph *g, int a, int b) {
    int *ids = ak_arena_alloc(&g->arena, 2 * sizeof *ids);
    ids[0] = a;
    ids[1] = b;
    return (struct ak_garg){.kind = AK_GARG_VALUES, .ids = ids, .n = 2};
}
static struct ak_garg integer(int64_t i) { return (struct ak_garg){.val = {.kind = AK_VAL_INT, .i = i}}; }
static struct ak_garg real(double f) { return (struct ak_garg){.val = {.kind = AK_VAL_FLOAT, .f = f}}; }
static struct ak_garg boolean(bool b) { return (struct ak_garg){.val = {.kind = AK_VAL_BOOL, .i = b}}; }
static struct ak_garg ints(struct ak_graph *g, int n, const int64_t *v) {
    int64_t *copy = ak_arena_alloc(&g->arena, ((size_t)n + 1) * sizeof *copy);
    memcpy(copy, v, (size_t)n * sizeof *copy);
    return (struct ak_garg){.val = {.kind = AK_VAL_INTS, .ints = {copy, (size_t)n}}};
}
#define INTS(...) ints(g, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

struct arg {
    const char *name;
    struct ak_garg a;
};
/* A node with those arguments (ended by {0}); its first output, or -1 with err set. */
static int node(struct ak_graph *g, const char *op_name, const char *name, const struct arg *args) {
    const struct ak_op *op = ak_op_find(op_name);
    if (!op) {
        printf("# there is no op '%s'\n", op_name);
        exit(1);
    }
    int n = ak_graph_add_node(g, op, name);
    for (; args->name; args++)
        g->nodes[n].args[ak_op_arg_index(op, args->name)] = args->a;
    if (ak_graph_infer(g, n, &err)) {
        printf("# %s\n", err.msg);
        return -1;
    }
    return g->nodes[n].outs[0];
}
#define NODE(op, name, ...) node(g, op, name, (struct arg[]){__VA_ARGS__, {0}})

static int input(struct ak_graph *g, const char *name, enum ak_dtype dtype, int ndim, const int64_t *shape) {
    int id = ak_graph_add_value(g, name, AK_VALUE_INPUT, ak_tensor_new(dtype, ndim, shape));
    int *ids = ak_arena_alloc(&g->arena, (g->ninputs + 1) * sizeof *ids);
    if (g->ninputs) memcpy(ids, g->inputs, g->ninputs * sizeof *ids);
    ids[g->ninputs++] = id;
    g->inputs = ids;
    g->values[id].hi = 2;
    return id;
}
static void output(struct ak_graph *g, int id) {
    int *ids = ak_arena_alloc(&g->arena, (g->noutputs + 1) * sizeof *ids);
    if (g->noutputs) memcpy(ids, g->outputs, g->noutputs * sizeof *ids);
    ids[g->noutputs++] = id;
    g->outputs = ids;
}
#define SHAPE(...) sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__}

static int constant(struct ak_graph *g, const char *name, enum ak_dtype dtype, int ndim, const int64_t *shape, double (*fn)(int64_t)) {
    struct ak_tensor t = ak_tensor_new(dtype, ndim, shape);
    int id = ak_graph_add_value(g, name, AK_VALUE_INLINE, t);
    struct ak_value *v = &g->values[id];
    v->bytes = ak_numel(&t) * (int64_t)ak_dtype_size(dtype);
    v->data = ak_arena_alloc(&g->arena, (size_t)v->bytes + 1);
    for (int64_t i = 0; i < ak_numel(&t); i++)
        ak_store(dtype, v->data, i, fn(i));
    return id;
}

/* ---- running by hand: every node through the reference ---- */

static void run_node(const struct ak_graph *g, int n, struct ak_tensor *t, struct ak_arena *a) {
    struct ak_opcall c;
    if (ak_graph_call(g, n, t, a, &c, &err) || ak_op_infer(&c, &err)) {
        printf("# %s\n", err.msg);
        return;
    }
    for (size_t i = 0; i < c.nout; i++) {
        c.out[i].data = c.alias[i] ? c.in[c.alias[i] - 1].t->data
                                   : ak_arena_alloc(a, (size_t)ak_extent(&c.out[i]) * ak_dtype_size(c.out[i].dtype) + 1);
        if (i < g->nodes[n].nouts && g->nodes[n].outs[i] >= 0) t[g->nodes[n].outs[i]] = c.out[i];
    }
    if (ak_op_run(&c, &err)) printf("# %s\n", err.msg);
}

/* Output o for inputs that count 0 1 2 ... each, as doubles. */
static void outputs_of(const struct ak_graph *g, size_t o, double *to) {
    struct ak_arena a = {0};
    struct ak_tensor *t = calloc(g->nvalues + 1, sizeof *t);
    for (size_t i = 0; i < g->nvalues; i++) {
        t[i] = g->values[i].t;
        t[i].data = g->values[i].data;
    }
    for (size_t i = 0; i < g->ninputs; i++) {
        struct ak_tensor *in = &t[g->inputs[i]];
        in->data = ak_arena_alloc(&a, (size_t)ak_extent(in) * ak_dtype_size(in->dtype) + 1);
        for (int64_t k = 0; k < ak_numel(in); k++)
            ak_set(in, k, (double)k);
    }
    for (size_t i = 0; i < g->nnodes; i++)
        run_node(g, (int)i, t, &a);
    const struct ak_tensor *out = &t[g->outputs[o]];
    for (int64_t k = 0; k < ak_numel(out); k++)
        to[k] = ak_get(out, k);
    free(t);
    ak_arena_release(&a);
}

static bool gives(const struct ak_graph *g, size_t o, int n, const double *want) {
    double got[64] = {0};
    bool same = ak_numel(&g->values[g->outputs[o]].t) == n;
    if (same) outputs_of(g, o, got);
    for (int i = 0; i < n && same; i++)
        same = got[i] == want[i];
    if (!same)
        for (int i = 0; i < n; i++)
            printf("# %d: %g, wanted %g\n", i, got[i], want[i]);
    return same;
}
#define WANT(...) sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}

/* ---- tests ---- */

static void build_small(struct ak_graph *g) {
    ak_graph_init(g);
    g->name = "small";
    g->source = "test";
    int x = input(g, "x", AK_F32, SHAPE(2, 3));
    int r = NODE("aten.relu.default", "relu", {"self", val(g, x)});
    int v = NODE("aten.view.default", "view", {"self", val(g, r)}, {"size", INTS(3, -1)});
    int s = NODE("aten.add.Tensor", "add", {"self", val(g, v)}, {"other", real(1.5)});
    NODE("aten.neg.default", "dead", {"self", val(g, s)});
    output(g, s);
}

static void basics(void) {
    struct ak_graph graph, *g = &graph;
    build_small(g);
    int v = g->nodes[1].outs[0], s = g->nodes[2].outs[0];
    ok(g->values[v].view_of == g->nodes[0].outs[0] + 1 && g->values[s].view_of == 0, "a view says whose storage it shows");
    ok(g->values[v].t.shape[1] == 2 && strcmp(g->values[s].name, "add") == 0, "shapes and names are inferred");
    int **users = ak_graph_users(g);
    ok(users[0][0] == 0 && users[0][1] == -1 && users[s][0] == 3 && users[g->nodes[3].outs[0]][0] == -1, "users");
    free(users);
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && g->nnodes == 3, "a dead node goes");
    ok(gives(g, 0, WANT(1.5, 2.5, 3.5, 4.5, 5.5, 6.5)), "what is left gives the same");
    ak_graph_release(g);
}

static double minus(int64_t i) { return (double)(i % 4 > i / 4) * -INFINITY; }

static void json(void) {
    struct ak_graph graph, *g = &graph, back;
    build_small(g);
    int c = constant(g, "c", AK_F32, SHAPE(1), minus);
    int s = NODE("aten.slice.Tensor", "sl", {"self", val(g, 0)}, {"dim", integer(0)}, {"end", integer(INT64_MAX)});
    output(g, NODE("aten.mul.Tensor", "m", {"self", val(g, s)}, {"other", val(g, c)}));
    output(g, NODE("aten.add.Tensor", "big", {"self", val(g, s)}, {"other", integer((1LL << 53) + 1)}));
    output(g, NODE("aten.cat.default", "cat", {"tensors", list(g, s, 0)}, {"dim", integer(-1)}));
    output(g, NODE("aten.add.Tensor", "inf", {"self", val(g, s)}, {"other", real(-INFINITY)}));
    output(g, NODE("aten.to.dtype", "bf", {"self", val(g, s)}, {"dtype", integer(AK_BF16)}));
    cJSON *o = ak_graph_to_json(g);
    char *text = cJSON_PrintUnformatted(o);
    ok(strstr(text, "9223372036854775807") && strstr(text, "\"9007199254740993\"") && strstr(text, "\"bf16\""), "integers are exact, dtypes are named");
    cJSON *again = ak_json_parse(text, strlen(text), "x", &err);
    ok(ak_graph_from_json(&back, again, "g.json", &err) == 0, "is read back");
    cJSON *o2 = ak_graph_to_json(&back);
    char *text2 = cJSON_PrintUnformatted(o2);
    ok(strcmp(text, text2) == 0, "and written the same");
    ok(back.nodes[6].args[1].val.i == (1LL << 53) + 1, "2^53 + 1 survives");
    free(text);
    free(text2);
    cJSON_Delete(o);
    cJSON_Delete(o2);
    cJSON_Delete(again);
    ak_graph_release(&back);
    ak_graph_release(g);
}

#define HEAD "{\"format\":\"ak-graph\",\"version\":1,\"name\":\"\",\"source\":\"\",\"files\":[],"
#define X "{\"name\":\"x\",\"kind\":\"input\",\"dtype\":\"f32\",\"shape\":[4],\"stride\":[1],\"offset\":0}"
#define Y(shape) "{\"name\":\"y\",\"kind\":\"node\",\"dtype\":\"f32\",\"shape\":[" shape "],\"stride\":[1],\"offset\":0}"
#define RELU(in) "{\"name\":\"relu\",\"op\":\"aten.relu.default\",\"args\":{\"self\":{\"v\":\"" in "\"}},\"outs\":[\"y\"]}"
static const struct {
    const char *text, *why, *what;
} refusals[] = {
    {"{\"format\":\"ak-plan\",\"version\":1}", "not an ak-graph", "another format"},
    {"{\"format\":\"ak-graph\",\"version\":2}", "another version", "another version"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"values\":[" X "," Y("5") "],\"nodes\":[" RELU("x") "]}", "'y' is not what", "a shape that inference does not find"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"values\":[" X "," Y("4") "],\"nodes\":[" RELU("y") "]}", "before any node", "a cycle"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"values\":[" X "," Y("4") "],\"nodes\":[" RELU("z") "]}", "no value 'z'", "a value that is not there"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"values\":[" X "," Y("4") "],\"nodes\":[]}", "no node makes value 'y'", "a value that nobody makes"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"x\"],\"values\":[" X "," X "],\"nodes\":[]}", "two values are called 'x'", "two values of one name"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"values\":[" X "," Y("4") "],\"nodes\":[" RELU("x") "," RELU("x") "]}", "two nodes are called", "two nodes of one name"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"x\"],\"values\":[{\"name\":\"x\",\"kind\":\"input\",\"dtype\":\"f99\",\"shape\":[4]}],\"nodes\":[]}", "'f99'", "an unknown dtype"},
    {HEAD "\"inputs\":[\"x\"],\"outputs\":[\"x\"],\"values\":[{\"name\":\"x\",\"kind\":\"input\",\"dtype\":\"f32\",\"shape\":[4294967296,4294967296]}],\"nodes\":[]}", "too large", "a shape that overflows"},
    {HEAD "\"inputs\":[],\"outputs\":[\"c\"],\"values\":[{\"name\":\"c\",\"kind\":\"inline\",\"dtype\":\"f32\",\"shape\":[2],\"data\":\"AAAA\"}],\"nodes\":[]}", "reaches past", "a constant that is too short"},
    {HEAD "\"inputs\":[],\"outputs\":[\"c\"],\"values\":[{\"name\":\"c\",\"kind\":\"inline\",\"dtype\":\"u8\",\"shape\":[2],\"data\":\"A?==\"}],\"nodes\":[]}", "base64", "a constant that is no base64"},
    {HEAD "\"inputs\":[],\"outputs\":[\"w\"],\"values\":[{\"name\":\"w\",\"kind\":\"file\",\"dtype\":\"u8\",\"shape\":[2],\"file\":0,\"at\":0,\"bytes\":2}],\"nodes\":[]}", "no file", "a file that is not listed"},
};

static void refuses(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct ak_graph g;
        cJSON *o = ak_json_parse(refusals[i].text, strlen(refusals[i].text), "x", &err);
        int rc = ak_graph_from_json(&g, o, "g.json", &err);
        ok(rc && err.code == AK_EXIT_INPUT && strstr(err.msg, refusals[i].why) && strstr(err.msg, "'g.json'"), "refused: %s", refusals[i].what);
        if (!rc || !strstr(err.msg, refusals[i].why)) printf("# %s\n", err.msg);
        if (!rc) ak_graph_release(&g);
        cJSON_Delete(o);
    }
}

static bool pure(const struct ak_graph *g) {
    for (size_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i].op->flags & AK_OP_INPLACE) return false;
    return true;
}

static void in_place(void) {
    struct ak_graph graph, *g = &graph;
    ak_graph_init(g); /* y = x + 1; v = y.view(6); y.mul_(2); out = v + y.view(6) */
    int x = input(g, "x", AK_F32, SHAPE(2, 3));
    int y = NODE("aten.add.Tensor", "y", {"self", val(g, x)}, {"other", integer(1)});
    int v = NODE("aten.view.default", "v", {"self", val(g, y)}, {"size", INTS(6)});
    NODE("aten.mul_.Tensor", "mul_", {"self", val(g, y)}, {"other", integer(2)});
    output(g, NODE("aten.neg.default", "n", {"self", val(g, v)}));
    output(g, y);
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && pure(g), "a write is seen through a view made before it");
    ok(gives(g, 0, WANT(-2, -4, -6, -8, -10, -12)) && gives(g, 1, WANT(2, 4, 6, 8, 10, 12)), "and by who reads the value itself");
    ak_graph_release(g);

    ak_graph_init(g); /* y = x + 0.5; t = y.t(); t.mul_(10) through a transposed view; out = y */
    x = input(g, "x", AK_F32, SHAPE(2, 3));
    y = NODE("aten.add.Tensor", "y", {"self", val(g, x)}, {"other", integer(1)});
    int t = NODE("aten.transpose.int", "t", {"self", val(g, y)}, {"dim0", integer(0)}, {"dim1", integer(1)});
    int w = NODE("aten.view.default", "w", {"self", val(g, y)}, {"size", INTS(6)});
    NODE("aten.mul_.Tensor", "mul_", {"self", val(g, t)}, {"other", integer(10)});
    output(g, y);
    output(g, w);
    output(g, t);
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && pure(g) && gives(g, 0, WANT(10, 20, 30, 40, 50, 60)) && gives(g, 1, WANT(10, 20, 30, 40, 50, 60)) &&
           gives(g, 2, WANT(10, 40, 20, 50, 30, 60)),
       "a write through a transposed view reaches its base and the base's other views");
    ak_graph_release(g);

    ak_graph_init(g); /* y[:, 1:] *= 2 twice, y[0] += 1 */
    x = input(g, "x", AK_F32, SHAPE(2, 3));
    y = NODE("aten.add.Tensor", "y", {"self", val(g, x)}, {"other", integer(1)});
    int s = NODE("aten.slice.Tensor", "s", {"self", val(g, y)}, {"dim", integer(1)}, {"start", integer(1)});
    NODE("aten.mul_.Tensor", "m1", {"self", val(g, s)}, {"other", integer(2)});
    NODE("aten.mul_.Tensor", "m2", {"self", val(g, s)}, {"other", integer(2)});
    int row = NODE("aten.select.int", "row", {"self", val(g, y)}, {"dim", integer(0)}, {"index", integer(0)});
    NODE("aten.add_.Tensor", "a1", {"self", val(g, row)}, {"other", integer(1)});
    output(g, y);
    output(g, s);
    int rc = ak_graph_normalise(g, 1 << 20, &err);
    ok(rc == 0 && pure(g) && gives(g, 0, WANT(2, 9, 13, 4, 20, 24)) && gives(g, 1, WANT(9, 13, 20, 24)), "writes through slices and rows%s%s",
       rc ? ": " : "", rc ? err.msg : "");
    ak_graph_release(g);

    ak_graph_init(g); /* a, b = y.split(2, 1); b *= 10; r0, r1 = y.unbind(); r1 += 1; y.narrow(1, 1, 1) *= -1 */
    x = input(g, "x", AK_F32, SHAPE(2, 3));
    y = NODE("aten.add.Tensor", "y", {"self", val(g, x)}, {"other", integer(1)});
    NODE("aten.split.Tensor", "split", {"self", val(g, y)}, {"split_size", integer(2)}, {"dim", integer(1)});
    int b = g->nodes[1].outs[1];
    NODE("aten.mul_.Tensor", "m1", {"self", val(g, b)}, {"other", integer(10)});
    NODE("aten.unbind.int", "rows", {"self", val(g, y)});
    int r1 = g->nodes[3].outs[1];
    NODE("aten.add_.Tensor", "a1", {"self", val(g, r1)}, {"other", integer(1)});
    int mid = NODE("aten.narrow.default", "mid", {"self", val(g, y)}, {"dim", integer(1)}, {"start", integer(1)}, {"length", integer(1)});
    NODE("aten.mul_.Tensor", "m2", {"self", val(g, mid)}, {"other", integer(-1)});
    output(g, y);
    output(g, b);
    rc = ak_graph_normalise(g, 1 << 20, &err);
    ok(rc == 0 && pure(g) && gives(g, 0, WANT(1, -2, 30, 5, -6, 61)) && gives(g, 1, WANT(30, 61)), "writes through pieces and rows%s%s", rc ? ": " : "",
       rc ? err.msg : "");
    ak_graph_release(g);

    ak_graph_init(g); /* y = x + 1; v = y.view(6); y.t_(); y.mul_(2) */
    x = input(g, "x", AK_F32, SHAPE(2, 3));
    y = NODE("aten.add.Tensor", "y", {"self", val(g, x)}, {"other", integer(1)});
    v = NODE("aten.view.default", "v", {"self", val(g, y)}, {"size", INTS(6)});
    t = NODE("aten.transpose_.default", "t_", {"self", val(g, y)}, {"dim0", integer(0)}, {"dim1", integer(1)});
    NODE("aten.mul_.Tensor", "m", {"self", val(g, t)}, {"other", integer(2)});
    output(g, y);
    output(g, v);
    rc = ak_graph_normalise(g, 1 << 20, &err);
    ok(rc == 0 && pure(g) && gives(g, 0, WANT(2, 8, 4, 10, 6, 12)) && gives(g, 1, WANT(2, 4, 6, 8, 10, 12)), "a tensor transposed in place%s%s", rc ? ": " : "",
       rc ? err.msg : "");
    ak_graph_release(g);

    ak_graph_init(g); /* integers stay integers */
    x = input(g, "x", AK_I64, SHAPE(3));
    y = NODE("aten.add.Tensor", "y", {"self", val(g, x)}, {"other", integer(1)});
    int z = NODE("aten.mul_.Tensor", "m", {"self", val(g, y)}, {"other", integer(3)});
    output(g, z);
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && g->values[g->outputs[0]].t.dtype == AK_I64 && gives(g, 0, WANT(3, 6, 9)), "dtype is kept");
    ak_graph_release(g);
}

static void passing(void) {
    struct ak_graph graph, *g = &graph;
    ak_graph_init(g);
    int x = input(g, "x", AK_F32, SHAPE(2, 3));
    int a = NODE("aten.dropout.default", "d", {"input", val(g, x)}, {"p", real(0.5)}, {"train", boolean(false)});
    a = NODE("aten.to.dtype", "to", {"self", val(g, a)}, {"dtype", integer(AK_F32)});
    a = NODE("aten.mul.Tensor", "one", {"self", val(g, a)}, {"other", real(1.0)});
    a = NODE("aten.contiguous.default", "c", {"self", val(g, a)});
    a = NODE("aten.slice.Tensor", "all", {"self", val(g, a)}, {"dim", integer(0)}, {"end", integer(INT64_MAX)});
    int t = NODE("aten.transpose.int", "t", {"self", val(g, a)}, {"dim0", integer(0)}, {"dim1", integer(1)});
    t = NODE("aten.contiguous.default", "ct", {"self", val(g, t)});
    output(g, NODE("aten.relu.default", "r", {"self", val(g, t)}));
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && g->nnodes == 3, "what passes its input on goes; a copy into another layout stays");
    ok(gives(g, 0, WANT(0, 3, 1, 4, 2, 5)), "and the result is the same");
    ak_graph_release(g);
}

static void folding(void) {
    struct ak_graph graph, *g = &graph;
    ak_graph_init(g);
    int x = input(g, "x", AK_F32, SHAPE(4, 4));
    int r = NODE("aten.arange.default", "range", {"end", integer(4)});
    int f = NODE("aten.to.dtype", "f", {"self", val(g, r)}, {"dtype", integer(AK_F32)});
    int e = NODE("aten.expand.default", "e", {"self", val(g, f)}, {"size", INTS(4, 4)});
    output(g, NODE("aten.add.Tensor", "sum", {"self", val(g, x)}, {"other", val(g, e)}));
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && g->nnodes == 1, "what depends on no input is folded");
    const struct ak_value *c = &g->values[g->nodes[0].args[1].ids[0]];
    ok(c->kind == AK_VALUE_INLINE && c->bytes == 16 && c->t.stride[0] == 0, "a stretched constant keeps its 16 bytes");
    ok(gives(g, 0, WANT(0, 2, 4, 6, 4, 6, 8, 10, 8, 10, 12, 14, 12, 14, 16, 18)), "and the result is the same");
    ak_graph_release(g);

    ak_graph_init(g);
    x = input(g, "x", AK_F32, SHAPE(4));
    r = NODE("aten.arange.default", "r1", {"end", integer(4)});
    int r2 = NODE("aten.arange.default", "r2", {"end", integer(4)});
    int once = NODE("aten.add.Tensor", "once", {"self", val(g, x)}, {"other", val(g, r)});
    output(g, NODE("aten.add.Tensor", "twice", {"self", val(g, once)}, {"other", val(g, r2)}));
    ok(ak_graph_normalise(g, 1 << 20, &err) == 0 && g->nvalues == 4 && gives(g, 0, WANT(0, 3, 6, 9)), "equal constants are one");
    ak_graph_release(g);

    ak_graph_init(g);
    x = input(g, "x", AK_F32, SHAPE(1000));
    r = NODE("aten.arange.default", "range", {"end", integer(1000)});
    output(g, NODE("aten.add.Tensor", "sum", {"self", val(g, x)}, {"other", val(g, r)}));
    ok(ak_graph_normalise(g, 7999, &err) == 0 && g->nnodes == 2, "what is larger than the limit is not");
    ok(ak_graph_normalise(g, 8000, &err) == 0 && g->nnodes == 1, "what is not larger is");
    ak_graph_release(g);
}

/* Attention over 4 positions with a mask that is a constant; the node's mask, causal flag. */
static void attention(enum ak_dtype dtype, double (*fn)(int64_t), int ndim, const int64_t *shape, bool mask, bool causal, const char *what) {
    struct ak_graph graph, *g = &graph;
    ak_graph_init(g);
    int q = input(g, "q", AK_F32, SHAPE(2, 1, 4, 8));
    int m = constant(g, "mask", dtype, ndim, shape, fn);
    output(g, NODE("aten.scaled_dot_product_attention.default", "a", {"query", val(g, q)}, {"key", val(g, q)}, {"value", val(g, q)}, {"attn_mask", val(g, m)}));
    int rc = ak_graph_normalise(g, 1 << 20, &err);
    const struct ak_node *n = &g->nodes[0];
    bool has = n->args[ak_op_arg_index(n->op, "attn_mask")].kind == AK_GARG_VALUE;
    bool is = n->args[ak_op_arg_index(n->op, "is_causal")].val.i != 0;
    ok(rc == 0 && has == mask && is == causal, "mask: %s", what);
    ak_graph_release(g);
}

static double lower(int64_t i) { return i % 4 <= i % 16 / 4; }
static double upper(int64_t i) { return i % 4 >= i % 16 / 4; }
static double ones(int64_t i) { return i >= 0; }
static double zeros(int64_t i) { return i < 0; }
static double most_negative(int64_t i) { return lower(i) ? 0 : -3.4028234663852886e38; }
static double minus_infinity(int64_t i) { return lower(i) ? 0 : -INFINITY; }
static double bias(int64_t i) { return lower(i) ? 0 : -8; }
static double one_off(int64_t i) { return i == 9 ? 0 : lower(i); }
static double second_differs(int64_t i) { return i == 16 ? 0 : lower(i); }

static void masks(void) {
    int64_t s4[] = {4, 4}, b4[] = {2, 1, 4, 4}, row[] = {1, 1, 1, 4};
    attention(AK_BOOL, lower, 2, s4, false, true, "causal, boolean");
    attention(AK_BOOL, lower, 4, b4, false, true, "causal in each batch");
    attention(AK_F32, minus_infinity, 2, s4, false, true, "causal, minus infinity");
    attention(AK_F32, most_negative, 2, s4, false, true, "causal, the most negative number");
    attention(AK_BOOL, ones, 2, s4, false, false, "all true");
    attention(AK_F32, zeros, 4, row, false, false, "all zero, one row");
    attention(AK_BOOL, upper, 2, s4, true, false, "the other triangle stays");
    attention(AK_F32, bias, 2, s4, true, false, "a bias stays");
    attention(AK_BOOL, one_off, 2, s4, true, false, "all but one element causal stays");
    attention(AK_BOOL, second_differs, 4, b4, true, false, "causal in the first batch alone stays");
}

static void grouped(bool exact) {
    struct ak_graph graph, *g = &graph;
    ak_graph_init(g);
    int q = input(g, "q", AK_F32, SHAPE(1, 4, 3, 2)), k = input(g, "k", AK_F32, SHAPE(1, 2, 3, 2)), kv[2];
    for (int i = 0; i < 2; i++) {
        int u = NODE("aten.unsqueeze.default", i ? "u1" : "u0", {"self", val(g, k)}, {"dim", integer(exact ? 2 : 1)});
        int e = NODE("aten.expand.default", i ? "e1" : "e0", {"self", val(g, u)}, {"size", exact ? INTS(1, 2, 2, 3, 2) : INTS(1, 2, 2, 3, 2)});
        kv[i] = NODE("aten.reshape.default", i ? "r1" : "r0", {"self", val(g, e)}, {"shape", INTS(1, 4, 3, 2)});
    }
    output(g, NODE("aten.scaled_dot_product_attention.default", "a", {"query", val(g, q)}, {"key", val(g, kv[0])}, {"value", val(g, kv[1])}));
    double before[24], after[24] = {0};
    outputs_of(g, 0, before);
    int rc = ak_graph_normalise(g, 1 << 20, &err);
    outputs_of(g, 0, after);
    ok(rc == 0 && g->nnodes == (exact ? 1 : 7) && memcmp(before, after, sizeof before) == 0,
       exact ? "repeated heads become grouped queries" : "heads repeated in another order stay");
    ak_graph_release(g);
}

int main(void) {
    basics();
    json();
    refuses();
    in_place();
    passing();
    folding();
    masks();
    grouped(true);
    grouped(false);
    return done();
}
