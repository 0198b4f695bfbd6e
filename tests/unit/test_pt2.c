/* Exported programs: the recorded ones give PyTorch's outputs, however they are packed; damaged
 * ones are refused with the place. */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>

#include "exec.h"
#include "file.h"
#include "graph.h"
#include "pt2.h"
#include "safetensors.h"
#include "zip.h"

#include "make_zip.h"
#include "tap.h"

static struct ak_err err;

/* ---- against PyTorch ---- */

static struct ak_tensor *recorded_inputs(const struct ak_graph *g, const struct ak_safetensors *st) {
    struct ak_tensor *in = calloc(g->ninputs + 1, sizeof *in);
    for (size_t i = 0; i < g->ninputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "input.%zu", i);
        const struct ak_tensor *t = ak_safetensors_find(st, name);
        if (t) in[i] = *t;
    }
    return in;
}

/* The largest difference of any output over its scale; infinite where something does not fit. */
static double difference(const struct ak_graph *g, const struct ak_safetensors *st) {
    struct ak_weights *w = ak_weights_new(g, 0);
    struct ak_exec_options opt = {.backend = AK_BACKEND_REFERENCE, .weights = w};
    struct ak_exec *x = ak_exec_new(g, &opt, &err);
    struct ak_tensor *in = recorded_inputs(g, st), *out = calloc(g->noutputs + 1, sizeof *out);
    double worst = x && ak_exec_run(x, in, out, NULL, &err) == 0 ? 0 : INFINITY;
    for (size_t i = 0; i < g->noutputs && worst < INFINITY; i++) {
        char name[32];
        snprintf(name, sizeof name, "output.%zu", i);
        const struct ak_tensor *want = ak_safetensors_find(st, name);
        double scale = 0, diff = 0;
        if (!want || !ak_same_shape(want, &out[i]) || want->dtype != out[i].dtype) {
            worst = INFINITY;
            break;
        }
        for (int64_t k = 0; k < ak_numel(want); k++) {
            double d = fabs(ak_get(&out[i], k) - ak_get(want, k));
            if (!(d <= diff)) diff = d;
            if (fabs(ak_get(want, k)) > scale) scale = fabs(ak_get(want, k));
        }
        if (!(diff / scale <= worst)) worst = diff / scale;
    }
    free(in);
    free(out);
    if (x) ak_exec_free(x);
    ak_weights_free(w);
    return worst;
}

static bool is(const struct ak_node *n, const char *op) { return strcmp(n->op->name, op) == 0; }


static bool all_attention(const struct ak_graph *g, bool causal, bool grouped) {
    for (size_t i = 0; i < g->nnodes; i++) {
        const struct ak_node *n = &g->nodes[i];
        if (!is(n, "aten.scaled_dot_product_attention.default")) continue;
        if (n->args[ak_op_arg_index(n->op, "attn_mask")].kind != AK_GARG_CONST) return false;
        if ((n->args[ak_op_arg_index(n->op, "is_causal")].val.i != 0) != causal) return false;
        if ((n->args[ak_op_arg_index(n->op, "enable_gqa")].val.i != 0) != grouped) return false;
    }
    return true;
}

static const struct {
    const char *name;
    double tol;
    size_t nodes; /* at most */
    bool causal, grouped;
} models[] = {
    {"hf_bert_tiny", 2e-6, 50, false, false},      {"hf_gpt2_tiny", 2e-6, 80, true, false}, {"hf_llama_tiny", 2e-6, 100, true, true},
    {"hf_llama_tiny_bf16", 0x1p-7, 60, true, true}, {"mlp_dynamic", 2e-6, 6, false, false},  {"squeezenet1_1", 2e-6, 66, false, false},
};

static bool survives_json(const struct ak_graph *g, struct ak_graph *back) {
    cJSON *o = ak_graph_to_json(g);
    char *one = cJSON_PrintUnformatted(o), *two = NULL;
    cJSON *again = cJSON_Parse(one);
    bool same = ak_graph_from_json(back, again, "graph.json", &err) == 0;
    if (same) {
        cJSON *o2 = ak_graph_to_json(back);
        two = cJSON_PrintUnformatted(o2);
        same = strcmp(one, two) == 0;
        cJSON_Delete(o2);
    }
    cJSON_free(one);
    cJSON_free(two);
    cJSON_Delete(o);
    cJSON_Delete(again);
    return same;
}

static void recorded(void) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[128], expect[128];
        struct ak_graph g, back;
        struct ak_safetensors st;
        struct ak_pt2_options opt = {0};
        snprintf(path, sizeof path, "tests/models/%s.pt2", models[i].name);
        snprintf(expect, sizeof expect, "tests/models/%s.safetensors", models[i].name);
        int rc = ak_pt2_read(&g, path, &opt, &err);
        ok(rc == 0, "%s is read%s%s", models[i].name, rc ? ": " : "", rc ? err.msg : "");
        if (rc || ak_safetensors_open(&st, expect, &err)) continue;
        rc = ak_graph_normalise(&g, 1 << 20, &err);
        ok(rc == 0, "%s has a normal form%s%s", models[i].name, rc ? ": " : "", rc ? err.msg : "");
        if (rc) continue;
        ok(g.nnodes <= models[i].nodes, "%s: %zu nodes are left", models[i].name, g.nnodes);
        ok(all_attention(&g, models[i].causal, models[i].grouped), "%s: attention without a mask", models[i].name);
        double d = difference(&g, &st);
        ok(d <= models[i].tol, "%s: within %.2g of PyTorch's outputs (%.2g)", models[i].name, models[i].tol, d);
        if (!(d <= models[i].tol)) printf("# %s\n", err.msg);
        ok(survives_json(&g, &back), "%s: the same after JSON", models[i].name);
        ok(difference(&back, &st) == d, "%s: and gives the same", models[i].name);
        ak_graph_release(&back);
        ak_graph_release(&g);
        ak_safetensors_close(&st);
    }
}

static int is_pt2(const struct dirent *e) {
    const char *dot = strrchr(e->d_name, '.');
    return dot && strcmp(dot, ".pt2") == 0;
}

/* tests/models/small: writes in place through views, buffers that change, no_grad within, weights that are views or
 * channels last, dynamic dimensions, several outputs, decomposed programs; torch 2.11, packed anew without traces. */
static void small(void) {
    struct dirent **files = NULL;
    int n = scandir("tests/models/small", &files, is_pt2, alphasort);
    ok(n > 0, "there are small programs");
    for (int i = 0; i < n; i++) {
        char path[512], expect[512];
        struct ak_graph g;
        struct ak_safetensors st;
        struct ak_pt2_options opt = {0};
        snprintf(path, sizeof path, "tests/models/small/%s", files[i]->d_name);
        snprintf(expect, sizeof expect, "%.*s.safetensors", (int)strlen(path) - 4, path);
        int rc = ak_pt2_read(&g, path, &opt, &err) || ak_graph_normalise(&g, 1 << 20, &err) || ak_safetensors_open(&st, expect, &err);
        double d = rc ? INFINITY : difference(&g, &st);
        ok(d <= 2e-6, "%s: within 2e-06 of PyTorch's outputs (%.2g)%s%s", files[i]->d_name, d, rc ? ": " : "", rc ? err.msg : "");
        if (!rc) ak_graph_release(&g);
        if (!rc) ak_safetensors_close(&st);
        free(files[i]);
    }
    free(files);
}

/* ---- packed otherwise ---- */

struct repack {
    const char *root;  /* instead of the file's own */
    int flags, end;    /* of make_zip.h */
    const char *drop;  /* member (without root) that is left out */
    const char *in;    /* member in which the first `from` becomes `to` */
    const char *from, *to;
};

static char *edited(const char *text, const char *from, const char *to, bool *found) {
    const char *at = strstr(text, from);
    *found = at != NULL;
    if (!at) return strdup(text);
    char *s = malloc(strlen(text) + strlen(to) + 1);
    sprintf(s, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return s;
}

/* mlp_dynamic.pt2 packed anew into a file; returns its descriptor. */
static int pack(const char *model, const struct repack *r, char path[static 64]) {
    char from[128];
    struct ak_zip z;
    struct mz m = {0};
    snprintf(from, sizeof from, "tests/models/%s.pt2", model);
    if (ak_zip_open(&z, from, &err)) return -1;
    for (size_t i = 0; i < z.n; i++) {
        const char *bare = strchr(z.members[i].name, '/') + 1;
        char name[256], *bytes = ak_zip_read(&z, &z.members[i], 1 << 28, &err);
        bool found = true;
        snprintf(name, sizeof name, "%s%s", r->root, bare);
        if (r->in && strcmp(bare, r->in) == 0) {
            char *text = edited(bytes, r->from, r->to, &found);
            if (!found) printf("# '%s' is not in %s\n", r->from, bare);
            mz_text(&m, name, text, r->flags);
            free(text);
        } else if (!r->drop || strcmp(bare, r->drop)) {
            mz_add(&m, name, strlen(name), bytes, z.members[i].bytes, r->flags);
        }
        free(bytes);
    }
    ak_zip_close(&z);
    mz_end(&m, r->end);
    int fd = mz_file(m.p, m.n, path);
    mz_free(&m);
    return fd;
}

static void packed(void) {
    static const struct {
        struct repack r;
        const char *what;
    } cases[] = {{{.root = "mlp_dynamic/"}, "stored and unaligned"},
                 {{.root = "mlp_dynamic/", .flags = MZ_DEFLATE}, "deflated: weights become part of the graph"},
                 {{.root = "another name/", .flags = MZ_DESCRIPTOR, .end = MZ_ZIP64}, "another root"},
                 {{.root = "", .flags = MZ_ZIP64, .end = MZ_ZIP64}, "no root, zip64"},
                 {{.root = "r/", .drop = "archive_format"}, "no archive_format"},
                 {{.root = "r/", .drop = "data/constants/model_constants_config.json"}, "no constants"},
                 {{.root = "r/", .drop = "data/sample_inputs/model.pt"}, "no sample inputs"}};
    struct ak_safetensors st;
    if (ak_safetensors_open(&st, "tests/models/mlp_dynamic.safetensors", &err)) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        struct ak_graph g;
        struct ak_pt2_options opt = {0};
        int fd = pack("mlp_dynamic", &cases[i].r, path);
        int rc = ak_pt2_read(&g, path, &opt, &err) || ak_graph_normalise(&g, 1 << 20, &err);
        double d = rc ? INFINITY : difference(&g, &st);
        ok(d <= 2e-6, "packed otherwise: %s%s%s", cases[i].what, rc ? ": " : "", rc ? err.msg : "");
        ak_graph_release(&g);
        close(fd);
    }
    ak_safetensors_close(&st);
}

static void spilled(void) {
    char path[64], dir[] = "/tmp/ak-pt2-XXXXXX", spill[64];
    struct repack r = {.root = "x/", .flags = MZ_DEFLATE};
    struct ak_graph g;
    struct ak_safetensors st;
    struct ak_pt2_options opt = {0};
    int fd = pack("hf_llama_tiny", &r, path);
    ok(ak_pt2_read(&g, path, &opt, &err) && strstr(err.msg, "-o FILE"), "many compressed weights want a file to go to");
    if (!mkdtemp(dir)) return;
    snprintf(spill, sizeof spill, "%s/g.weights", dir);
    opt.spill = spill;
    int rc = ak_pt2_read(&g, path, &opt, &err) || ak_graph_normalise(&g, 1 << 20, &err) ||
             ak_safetensors_open(&st, "tests/models/hf_llama_tiny.safetensors", &err);
    ok(!rc && opt.spilled && difference(&g, &st) <= 2e-6, "and give the same from there%s%s", rc ? ": " : "", rc ? err.msg : "");
    ak_graph_release(&g);
    ak_safetensors_close(&st);
    unlink(spill);
    rmdir(dir);
    close(fd);
}

/* ---- damaged ---- */

#define MODEL "models/model.json"
#define CONFIG "data/weights/model_weights_config.json"
static const struct {
    struct repack r;
    const char *why, *what;
} bad[] = {
    {{.drop = MODEL}, "no exported model", "no model.json"},
    {{.drop = CONFIG}, "lacks", "no weights config"},
    {{.drop = "data/weights/weight_0"}, "weight_0", "a weight that is not there"},
    {{.in = MODEL, .from = "{", .to = "{{"}, "not JSON: line 1", "model.json that is no JSON"},
    {{.in = MODEL, .from = "\"nodes\": [", .to = "\"nodes\": [{\"a\": NaN}, "}, "not JSON", "a bare NaN"},
    {{.in = MODEL, .from = "{\"major\": 8", .to = "{\"major\": 9"}, "schema version 9", "a later schema"},
    {{.in = MODEL, .from = "\"as_tensor\": {\"name\": \"x\"}}, \"kind\"", .to = "\"as_thing\": {\"name\": \"x\"}}, \"kind\""}, "'as_thing'", "an unknown kind of argument"},
    {{.in = MODEL, .from = "\"arg\": {\"as_ints\": [64]}", .to = "\"arg\": {\"as_ints\": [64], \"as_none\": true}"}, "one key", "a union with two keys"},
    {{.in = MODEL, .from = "\"name\": \"normalized_shape\"", .to = "\"name\": \"normalised_shape\""}, "no argument 'normalised_shape'", "an unknown argument"},
    {{.in = MODEL, .from = "aten.masked_fill.Scalar", .to = "aten.maskd_fill.Scalar"}, "aten.masked_fill.Scalar", "an op that is misspelt: the near one is named"},
    {{.in = MODEL, .from = "\"x\": {\"dtype\": 7", .to = "\"x\": {\"dtype\": 99"}, "dtype code 99", "an unknown dtype"},
    {{.in = MODEL, .from = "\"x\": {\"dtype\": 7", .to = "\"x\": {\"dtype\": 10"}, "complex64", "a dtype that is not read"},
    {{.in = MODEL, .from = "\"hint\": {\"as_int\": 5}", .to = "\"hint\": null"}, "no hint", "a dimension without a value"},
    {{.in = MODEL, .from = "\"silu\": {\"dtype\": 7", .to = "\"silu\": {\"dtype\": 8"}, "torch recorded f64", "a dtype that inference does not find"},
    {{.in = MODEL, .from = "{\"as_tensor\": {\"name\": \"silu\"}}], \"meta", .to = "{\"as_tensor\": {\"name\": \"silu\"}}, {\"as_tensor\": {\"name\": \"linear\"}}], \"meta"}, "two values are called 'linear'", "a value made twice"},
    {{.in = MODEL, .from = "\"name\": \"input\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}", .to = "\"name\": \"input\", \"arg\": {\"as_tensor\": {\"name\": \"silu\"}}"},
     "'silu' is read before", "a cycle"},
    {{.in = MODEL, .from = "\"parameter_name\": \"a.weight\"", .to = "\"parameter_name\": \"z.weight\""}, "weight 'z.weight'", "a parameter without an entry"},
    {{.in = MODEL, .from = "{\"user_input\"", .to = "{\"custom_obj\""}, "'custom_obj'", "an object for an input"},
    {{.in = CONFIG, .from = "\"use_pickle\": false", .to = "\"use_pickle\": true"}, "pickled", "a pickled weight"},
    {{.in = CONFIG, .from = "\"storage_offset\": {\"as_int\": 0}", .to = "\"storage_offset\": {\"as_int\": 1}"}, "reaches past", "a storage offset past the end"},
    {{.in = CONFIG, .from = "\"storage_offset\": {\"as_int\": 0}", .to = "\"storage_offset\": {\"as_int\": -1}"}, "storage_offset", "a negative storage offset"},
    {{.in = CONFIG, .from = "{\"as_int\": 64}, {\"as_int\": 32}", .to = "{\"as_int\": 4294967296}, {\"as_int\": 4294967296}"}, "too large", "a size that overflows"},
    {{.in = CONFIG, .from = "\"layout\": 7", .to = "\"layout\": 1"}, "layout code 1", "a sparse weight"},
    {{.in = "byteorder", .from = "little", .to = "big"}, "big-endian", "weights of the other byte order"},
};

static void damaged(void) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[64];
        struct ak_graph g;
        struct ak_pt2_options opt = {0};
        struct repack r = bad[i].r;
        r.root = "x/";
        int fd = pack("mlp_dynamic", &r, path);
        err = (struct ak_err){0};
        int rc = ak_pt2_read(&g, path, &opt, &err);
        bool good = rc && err.code == AK_EXIT_INPUT && strstr(err.msg, bad[i].why) && strstr(err.msg, path);
        ok(good, "refused: %s", bad[i].what);
        if (!good) printf("# '%s'\n", err.msg);
        if (!rc) ak_graph_release(&g);
        close(fd);
    }
}

static void others(void) {
    static const struct {
        const char *member, *why, *what;
    } zips[] = {{"x/data.pkl", "torch.save", "a torch.save file"},
                {"x/constants.pkl", "TorchScript", "a TorchScript file"},
                {"serialized_exported_program.json", "torch >= 2.9", "an export by torch 2.7"},
                {"hello.txt", "no exported model", "any zip file"}};
    struct ak_graph g;
    struct ak_pt2_options opt = {0};
    char path[64];
    for (size_t i = 0; i < sizeof zips / sizeof *zips; i++) {
        struct mz m = {0};
        mz_text(&m, zips[i].member, "x", 0);
        mz_end(&m, 0);
        int fd = mz_file(m.p, m.n, path);
        ok(ak_pt2_read(&g, path, &opt, &err) && strstr(err.msg, zips[i].why), "told apart: %s", zips[i].what);
        mz_free(&m);
        close(fd);
    }
    int fd = mz_file("\x80\x02}q", 4, path);
    ok(ak_pt2_read(&g, path, &opt, &err) && strstr(err.msg, "pickle"), "told apart: a bare pickle");
    close(fd);
    ok(ak_pt2_read(&g, "tests/unit/tap.h", &opt, &err) && strstr(err.msg, "no zip file"), "told apart: no zip file");
    ok(ak_pt2_read(&g, "/nonexistent", &opt, &err) && strstr(err.msg, "No such file"), "a file that is not there");
}

/* ---- dynamic dimensions ---- */

static void dynamic(void) {
    struct ak_graph g;
    struct ak_pt2_options opt = {0};
    if (ak_pt2_read(&g, "tests/models/mlp_dynamic.pt2", &opt, &err) || ak_graph_normalise(&g, 1 << 20, &err)) {
        ok(false, "mlp_dynamic: %s", err.msg);
        return;
    }
    int64_t shape[2] = {9, 32};
    struct ak_tensor in = ak_tensor_new(AK_F32, 2, shape);
    ok(g.nsymbols == 1 && g.symbols[0].value == 5 && g.symbols[0].min == 1 && g.symbols[0].max == 4096, "one symbol, at its hint, with its range");
    ok(ak_graph_bind(&g, &in, &err) == 0 && g.values[g.outputs[0]].t.shape[0] == 9 && g.symbols[0].value == 9, "bound to 9");
    shape[0] = 5000;
    in = ak_tensor_new(AK_F32, 2, shape);
    ok(ak_graph_bind(&g, &in, &err) && strstr(err.msg, "range 1 to 4096"), "5000 is out of its range");
    shape[0] = 9;
    shape[1] = 33;
    in = ak_tensor_new(AK_F32, 2, shape);
    ok(ak_graph_bind(&g, &in, &err) && strstr(err.msg, "fixes dimension 1"), "a fixed dimension stays");
    ak_graph_release(&g);
}

/* ---- what the recorded ones lack ---- */

/* tests/fuzz/corpus/pt2/kinds: integers of shapes, lists with and without holes, a write in place, a
 * graph inside a node, a buffer that is changed; model.json, NUL, config of the weights. */
static void kinds(void) {
    size_t len;
    char *text = ak_file_read("tests/fuzz/corpus/pt2/kinds", 1 << 20, &len, &err), path[64];
    static const char zeros[8192];
    struct mz m = {0};
    struct ak_graph g;
    struct ak_pt2_options opt = {0};
    if (!text) {
        ok(false, "%s", err.msg);
        return;
    }
    mz_text(&m, "a/models/model.json", text, 0);
    mz_text(&m, "a/data/weights/model_weights_config.json", text + strlen(text) + 1, 0);
    mz_add(&m, "a/data/weights/weight_0", 23, zeros, sizeof zeros, 0);
    mz_add(&m, "a/data/weights/weight_1", 23, zeros, 64, 0);
    mz_end(&m, 0);
    int fd = mz_file(m.p, m.n, path), rc = ak_pt2_read(&g, path, &opt, &err) || ak_graph_normalise(&g, 1 << 20, &err);
    ok(rc == 0, "all kinds of arguments%s%s", rc ? ": " : "", rc ? err.msg : "");
    ok(strstr(opt.warning, "'p' would be changed"), "a buffer that a run would change is named");
    int64_t shape[2] = {6, 8};
    struct ak_tensor in = ak_tensor_new(AK_F32, 2, shape);
    ok(!rc && ak_graph_bind(&g, &in, &err) == 0 && g.values[g.outputs[0]].t.shape[0] == 12, "integers of shapes follow the input");
    if (!rc) ak_graph_release(&g);
    mz_free(&m);
    free(text);
    close(fd);
}

int main(void) {
    kinds();
    recorded();
    small();
    packed();
    spilled();
    damaged();
    others();
    dynamic();
    return done();
}
