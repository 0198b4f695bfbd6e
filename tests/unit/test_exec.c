/* The executor over graphs made by hand: steps, fallbacks, groups, memory, weights. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "hand.h"
#include "json.h"
#include "rand.h"
#include "tap.h"
#include "verify.h"

static void make_vendor(void) {
    make_dir();
    compile("add.c", "add.so", "");
    compile("packing.c", "packing.so", "");
    compile("muladd.c", "muladd.so", "");
    compile("muladd.c", "wrong.so", "-DWRONG");
    compile("muladd.c", "refuse.so", "-DREFUSE");
    compile("muladd.c", "fail.so", "-DFAIL");
    char *path = ak_path_join(dir, "INDEX");
    FILE *f = fopen(path, "w");
    fputs("aten.add.Tensor add.so\nmatmul packing.so\n", f);
    fclose(f);
    free(path);
}

/* ---- runs ---- */

struct run {
    struct ak_weights *w;
    struct ak_exec *x;
    struct ak_tensor *in, out[8];
};

static bool start(struct run *r, struct ak_graph *g, enum ak_backend backend, struct ak_group *groups, size_t n, size_t packed_cap) {
    r->w = ak_weights_new(g, 0);
    r->in = ak_inputs_draw(g, 42);
    struct ak_exec_options o = {.backend = backend, .groups = groups, .ngroups = n, .vendor_dir = dir, .weights = r->w, .packed_cap = packed_cap};
    r->x = ak_exec_new(g, &o, &err);
    return r->x != NULL;
}

static bool go(struct run *r) { return ak_exec_run(r->x, r->in, r->out, NULL, &err) == 0; }

static void stop(struct run *r, struct ak_graph *g) {
    ak_exec_free(r->x);
    ak_weights_free(r->w);
    ak_inputs_free(g, r->in);
}

static bool near(const struct ak_tensor *a, const struct ak_tensor *b, double tol) {
    struct ak_diff d = ak_diff_of(a, b);
    return d.err <= tol * d.scale && d.scale > 0;
}

static const struct ak_step_info *step_of(struct run *r, const char *what) {
    static struct ak_step_info s;
    for (size_t i = 0; i < ak_exec_nsteps(r->x); i++) {
        s = ak_exec_step_info(r->x, i);
        if (strcmp(s.what, what) == 0) return &s;
    }
    return NULL;
}

/* ---- a small model: linear, transposed view, add that the vendor does and one that it refuses ---- */

static void small_model(struct ak_graph *g) {
    ak_graph_init(g);
    g->name = "small";
    int x = input(g, "x", 4, 8), w = value(g, "w", AK_VALUE_RANDOM, 2, (int64_t[]){4, 8}), b = value(g, "b", AK_VALUE_RANDOM, 1, (int64_t[]){4});
    int h = node(g, "aten.linear.default", "linear", x, w, b);
    int t = transpose(g, "transpose", h);
    int s = node(g, "aten.add.Tensor", "add", h, h, -1);
    int u = node(g, "aten.add.Tensor", "add_1", s, t, -1);
    outputs(g, 3, (int[]){u, t, x});
}

static double small_h(const struct ak_tensor *x, const struct ak_tensor *w, const struct ak_tensor *b, int i, int j) {
    double sum = ak_get(b, j);
    for (int k = 0; k < 8; k++)
        sum += ak_get(x, i * 8 + k) * ak_get(w, j * 8 + k);
    return sum;
}

static bool small_is_right(struct run *r, struct ak_graph *g) {
    struct ak_tensor w, b;
    must(ak_weights_get(r->w, 1, &w, &err) == 0 && ak_weights_get(r->w, 2, &b, &err) == 0, "weights");
    (void)g;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            double h = small_h(&r->in[0], &w, &b, i, j), t = small_h(&r->in[0], &w, &b, j, i);
            if (!(fabs(ak_get(&r->out[0], i * 4 + j) - (2 * h + t)) < 1e-5) || !(fabs(ak_get(&r->out[1], i * 4 + j) - t) < 1e-5)) return false;
        }
    return ak_get(&r->out[2], 5) == ak_get(&r->in[0], 5);
}

static void test_small(void) {
    struct ak_graph g;
    struct run r = {0};
    small_model(&g);
    must(start(&r, &g, AK_BACKEND_REFERENCE, NULL, 0, SIZE_MAX), "plan");
    ok(go(&r) && small_is_right(&r, &g), "the reference runs a model with a view and an input among its outputs");
    ok(ak_exec_nsteps(r.x) == 3, "views cost no step");
    stop(&r, &g);

    must(start(&r, &g, AK_BACKEND_VENDOR, NULL, 0, SIZE_MAX), "plan");
    ok(go(&r) && small_is_right(&r, &g), "the opponents give the same");
    ok(go(&r) && small_is_right(&r, &g), "and a second time");
    const struct ak_step_info *s = step_of(&r, "aten.linear.default");
    ok(s && strcmp(s->by, "vendor") == 0 && s->calls == 2, "aten.linear runs on the matmul library, twice");
    struct ak_step_info first = ak_exec_step_info(r.x, 1), second = ak_exec_step_info(r.x, 2);
    ok(strcmp(first.by, "vendor") == 0 && strcmp(second.by, "reference") == 0, "an add that the library refuses goes to the reference");
    char *path = ak_path_join(dir, "packing.so");
    void *lib = dlopen(path, RTLD_NOW);
    int *count = dlsym(lib, "prepare_count");
    ok(count && *count == 1, "constants are packed once for two runs");
    stop(&r, &g);
    must(start(&r, &g, AK_BACKEND_VENDOR, NULL, 0, 0), "plan");
    *count = 0;
    ok(go(&r) && small_is_right(&r, &g), "without room to keep what was packed the result is the same");
    dlclose(lib);
    free(path);

    struct ak_tensor bad = r.in[0];
    bad.shape[0] = 5;
    ok(ak_exec_run(r.x, &bad, r.out, NULL, &err) && strstr(err.msg, "input 0 'x' is f32[5,8], not f32[4,8]"), "an input of another shape is an error");
    struct ak_tensor flipped = r.in[0];
    float copy[32];
    flipped.data = copy;
    flipped.stride[0] = 1, flipped.stride[1] = 4;
    for (int64_t k = 0; k < 32; k++)
        ak_set(&flipped, k, ak_get(&r.in[0], k));
    ok(ak_exec_run(r.x, &flipped, r.out, NULL, &err) == 0 && small_is_right(&r, &g), "an input of another layout is copied");
    stop(&r, &g);
    ak_graph_release(&g);
}

/* ---- groups ---- */

static struct ak_group muladd(struct ak_graph *g, struct ak_group_arg *args, int *nodes, const char *kernel) {
    static char *const names[] = {"x", "y", "z", "out"};
    static const int ids[] = {0, 1, 2, 4};
    for (int i = 0; i < 4; i++)
        args[i] = (struct ak_group_arg){.name = names[i], .role = i < 3 ? AK_ROLE_INPUT : AK_ROLE_OUTPUT, .value = group_values[ids[i]], .t = g->values[group_values[ids[i]]].t};
    nodes[0] = 1, nodes[1] = 0;
    return (struct ak_group){.type = "muladd", .spec = "muladd-3x5", .nodes = nodes, .nnodes = 2, .args = args, .nargs = 4, .kernel = kernel};
}

static void test_groups(void) {
    struct ak_graph g;
    struct run plain = {0}, r = {0};
    struct ak_group_arg args[4];
    int nodes[4];
    group_model(&g);
    must(start(&plain, &g, AK_BACKEND_REFERENCE, NULL, 0, SIZE_MAX) && go(&plain), "reference");
    char *kernel = ak_path_join(dir, "muladd.so"), *refuse = ak_path_join(dir, "refuse.so"), *fail = ak_path_join(dir, "fail.so");

    struct ak_group gr = muladd(&g, args, nodes, kernel);
    must(start(&r, &g, AK_BACKEND_VENDOR, &gr, 1, SIZE_MAX), "plan");
    ok(go(&r) && near(&r.out[0], &plain.out[0], 1e-6), "a kernel for a group gives what its nodes give");
    const struct ak_step_info *s = step_of(&r, "muladd");
    ok(s && strcmp(s->by, "kernel") == 0 && s->calls == 1 && s->group == 0 && s->node == 0, "and its step says so");
    ok(!ak_exec_value(r.x, group_values[3]).data, "what stays inside a group has no memory");
    ok(ak_exec_nsteps(r.x) == 3, "two nodes are one step");
    stop(&r, &g);

    gr.kernel = refuse;
    must(start(&r, &g, AK_BACKEND_VENDOR, &gr, 1, SIZE_MAX), "plan");
    ok(go(&r) && near(&r.out[0], &plain.out[0], 1e-6) && !step_of(&r, "muladd"), "a kernel that refuses falls back to the nodes");
    ok(ak_exec_nunits(r.x) == 3 && ak_exec_nsteps(r.x) == 4 && ak_exec_step_info(r.x, 1).unit == 0, "which stay one unit");
    stop(&r, &g);

    gr.kernel = NULL;
    must(start(&r, &g, AK_BACKEND_REFERENCE, &gr, 1, SIZE_MAX), "plan");
    ok(go(&r) && near(&r.out[0], &plain.out[0], 0), "a group without a kernel runs node by node on the reference");
    stop(&r, &g);

    gr.kernel = fail;
    must(start(&r, &g, AK_BACKEND_VENDOR, &gr, 1, SIZE_MAX), "plan");
    ok(!go(&r) && strstr(err.msg, "AK_FAILED") && strstr(err.msg, "'mul'"), "a launch that fails is an error with its node");
    stop(&r, &g);

    gr.kernel = "/nonexistent/k.so";
    ok(!start(&r, &g, AK_BACKEND_VENDOR, &gr, 1, SIZE_MAX) && strstr(err.msg, "cannot load '/nonexistent/k.so'"), "a kernel that does not load is an error");
    stop(&r, &g);

    gr = muladd(&g, args, nodes, kernel);
    struct ak_group twice[2] = {gr, gr};
    ok(!start(&r, &g, AK_BACKEND_VENDOR, twice, 2, SIZE_MAX) && strstr(err.msg, "is in two groups"), "groups that overlap are an error");
    stop(&r, &g);

    nodes[0] = 1, nodes[1] = 3; /* the relu between them is outside */
    ok(!start(&r, &g, AK_BACKEND_VENDOR, &gr, 1, SIZE_MAX) && strstr(err.msg, "not convex"), "a group that a path leaves and re-enters is an error");
    stop(&r, &g);

    gr = muladd(&g, args, nodes, kernel);
    nodes[0] = 0, nodes[1] = 1, nodes[2] = 2;
    gr.nnodes = 3; /* the relu is in it, its result not an output */
    ok(!start(&r, &g, AK_BACKEND_VENDOR, &gr, 1, SIZE_MAX) && strstr(err.msg, "'relu'") && strstr(err.msg, "inside a group"),
       "a result that is needed outside must be an output of the group");
    stop(&r, &g);

    gr = muladd(&g, args, nodes, kernel);
    cJSON *o = ak_group_to_json(&g, &gr);
    struct ak_group back;
    struct ak_arena arena = {0};
    ok(ak_group_from_json(&back, &g, o, &arena, &err) == 0 && back.nnodes == 2 && back.nargs == 4 && back.args[3].value == group_values[4] &&
           back.args[3].role == AK_ROLE_OUTPUT && strcmp(back.spec, "muladd-3x5") == 0,
       "a group survives JSON");
    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "args"), 0), "offset", cJSON_CreateNumber(1));
    ok(ak_group_from_json(&back, &g, o, &arena, &err) && strstr(err.msg, "past the storage of value 'x'"), "a view past its storage is refused");
    cJSON_Delete(o);
    ak_arena_release(&arena);
    stop(&plain, &g);
    ak_graph_release(&g);
    free(kernel), free(refuse), free(fail);
}

/* ---- memory ---- */

enum { CHAIN = 20, WIDE = 64 };

static void test_chain(void) {
    struct ak_graph g;
    struct run r = {0};
    ak_graph_init(&g);
    g.name = "chain";
    int v = input(&g, "x", 100, 100);
    for (int i = 0; i < CHAIN; i++) {
        char name[32];
        snprintf(name, sizeof name, "relu_%d", i);
        v = node(&g, "aten.relu.default", name, v, -1, -1);
    }
    outputs(&g, 1, &v);
    must(start(&r, &g, AK_BACKEND_REFERENCE, NULL, 0, 0), "plan");
    size_t activations, packed;
    ak_exec_memory(r.x, &activations, &packed);
    ok(activations <= 2 * 40064, "a chain of %d wants two buffers (%zu bytes)", CHAIN, activations);
    ok(go(&r) && ak_get(&r.out[0], 7) == fmax(0, ak_get(&r.in[0], 7)), "and is right");
    stop(&r, &g);
    ak_graph_release(&g);
}

/* A random dag of sums and maxima whose values a test computes beside it. */
static void test_random_dag(uint64_t seed) {
    struct ak_graph g;
    struct run r = {0};
    int ids[WIDE + 2], from[WIDE + 2][2];
    float want[WIDE + 2];
    ak_graph_init(&g);
    g.name = "dag";
    ids[0] = input(&g, "x", 2, 3), ids[1] = input(&g, "y", 2, 3);
    for (int i = 2; i < WIDE + 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%d", i);
        from[i][0] = (int)(ak_rand_u64(seed, (uint64_t)i) % (uint64_t)i);
        from[i][1] = i > 8 ? i - 1 - (int)(ak_rand_u64(seed + 1, (uint64_t)i) % 8) : 0;
        ids[i] = i % 3 ? node(&g, "aten.add.Tensor", name, ids[from[i][0]], ids[from[i][1]], -1)
                       : node(&g, "aten.relu.default", name, ids[from[i][0]], -1, -1);
    }
    outputs(&g, 3, (int[]){ids[WIDE + 1], ids[WIDE / 2], ids[WIDE]});
    must(start(&r, &g, AK_BACKEND_VENDOR, NULL, 0, 0) && go(&r), "dag");
    want[0] = (float)ak_get(&r.in[0], 4), want[1] = (float)ak_get(&r.in[1], 4);
    for (int i = 2; i < WIDE + 2; i++)
        want[i] = i % 3 ? want[from[i][0]] + want[from[i][1]] : fmaxf(0, want[from[i][0]]);
    ok(ak_get(&r.out[0], 4) == want[WIDE + 1] && ak_get(&r.out[1], 4) == want[WIDE / 2] && ak_get(&r.out[2], 4) == want[WIDE],
       "no value is overwritten while it is needed (seed %llu)", (unsigned long long)seed);
    stop(&r, &g);
    ak_graph_release(&g);
}

/* ---- weights ---- */

static void test_weights(void) {
    struct ak_graph g;
    ak_graph_init(&g);
    g.name = "weights";
    int a = value(&g, "a", AK_VALUE_RANDOM, 1, (int64_t[]){1000}), b = value(&g, "b", AK_VALUE_RANDOM, 1, (int64_t[]){1000});
    int f = value(&g, "f", AK_VALUE_FILE, 1, (int64_t[]){3});
    char *path = ak_path_join(dir, "weights.bin");
    FILE *out = fopen(path, "w");
    fputc(0, out);
    fwrite((float[]){1.5f, -2, 3}, sizeof(float), 3, out);
    fclose(out);
    g.files = &path;
    g.nfiles = 1;
    g.values[f].at = 1;
    g.values[f].bytes = 12;
    struct ak_weights *w = ak_weights_new(&g, 5000);
    struct ak_tensor ta, tb, tf;
    must(ak_weights_get(w, a, &ta, &err) == 0, "a");
    double third = ak_get(&ta, 3), var = 0;
    for (int64_t i = 0; i < 1000; i++)
        var += ak_get(&ta, i) * ak_get(&ta, i) / 1000;
    ok(var > 0.8 && var < 1.2, "a random weight has the variance asked for (%.3f)", var);
    ak_weights_tick(w);
    must(ak_weights_get(w, b, &tb, &err) == 0, "b");
    ok(ak_weights_peak(w) == 4000, "above the cap the weight unused longest is dropped");
    must(ak_weights_get(w, a, &ta, &err) == 0, "a");
    ok(ak_get(&tb, 3) != third && ak_get(&ta, 3) == third, "one in use is kept in spite of the cap, one made anew is the same");
    ok(ak_weights_get(w, f, &tf, &err) == 0 && ak_get(&tf, 0) == 1.5 && ak_get(&tf, 2) == 3, "unaligned bytes of a file are read right");
    ok((uintptr_t)tf.data % sizeof(float) == 0, "and aligned for the kernels");
    g.values[f].at = 2;
    ak_weights_free(w);
    w = ak_weights_new(&g, 0);
    ok(ak_weights_get(w, f, &tf, &err) && strstr(err.msg, "lie outside"), "bytes past the end of the file are an error");
    ak_weights_free(w);
    g.files = NULL;
    g.nfiles = 0;
    ak_graph_release(&g);
    free(path);
}

static void test_diff(void) {
    float a[] = {1, NAN, INFINITY, -4}, b[] = {1.5f, NAN, INFINITY, -4}, c[] = {1, 0, INFINITY, -4}, d[] = {1, NAN, -INFINITY, -4};
    struct ak_tensor t[4];
    float *data[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        t[i] = ak_tensor_new(AK_F32, 1, (int64_t[]){4});
        t[i].data = data[i];
    }
    struct ak_diff e = ak_diff_of(&t[1], &t[0]);
    ok(e.err == 0.5 && e.scale == 4 && e.at == 0, "the difference is the largest of the finite elements");
    ok(isinf(ak_diff_of(&t[2], &t[0]).err), "a number for a NaN is infinitely wrong");
    ok(isinf(ak_diff_of(&t[0], &t[2]).err), "a NaN for a number is infinitely wrong");
    ok(isinf(ak_diff_of(&t[3], &t[0]).err), "so is an infinity of the other sign");
}

int main(void) {
    make_vendor();
    test_small();
    test_groups();
    test_chain();
    for (uint64_t seed = 1; seed <= 5; seed++)
        test_random_dag(seed);
    test_weights();
    test_diff();
    remove_dir();
    return done();
}
