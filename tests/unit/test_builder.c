/* Graphs built from Lua: mistakes are reported with the line that made them, nothing that Lua does
 * breaks the graph, and every model file builds. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "builder.h"
#include "file.h"
#include "json.h"
#include "mem.h"
#include "tap.h"

static char dir[] = "/tmp/builder.XXXXXX";
static struct ak_err err;

static char *write_file(const char *name, const char *text) {
    char *path = ak_path_join(dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) printf("Bail out! cannot write %s\n", path), exit(1);
    return path;
}

/* Builds with f(g, opt), whose body this is from line 3 on. */
static int build(struct ak_graph *g, const char *body) {
    char *text = ak_asprintf("local M = {}\nfunction M.f(g, opt)\n%s\nend\nreturn M\n", body), *path = write_file("rule.lua", text);
    err = (struct ak_err){0};
    ak_graph_init(g);
    struct ak_rules *r = ak_rules_open(path, &err);
    cJSON *arg = cJSON_CreateObject();
    cJSON_AddStringToObject(arg, "dtype", "f32");
    int rc = r ? ak_build_graph(r, "f", arg, g, &err) : -1;
    cJSON_Delete(arg);
    ak_rules_close(r);
    free(path);
    free(text);
    return rc;
}

/* On one line, as TAP wants it. */
static const char *flat(const char *s) {
    static char line[80];
    snprintf(line, sizeof line, "%s", s + strspn(s, "\n"));
    for (char *p = line; *p; p++)
        if (*p == '\n') *p = ' ';
    return line;
}

static void refused(const char *body, const char *fragment) {
    struct ak_graph g;
    int rc = build(&g, body);
    bool good = rc && strstr(err.msg, fragment) && err.code == AK_EXIT_INPUT;
    ok(good, "%s: %s", flat(body), fragment);
    if (!good) printf("# got %d %.200s\n", rc, err.msg);
    ak_graph_release(&g);
}

#define X "local x = g:input('x', 'f32', {2, 3}) "

static void mistakes(void) {
    refused(X "\n\ng:op('aten.liner', {x})", "rule.lua:5: unknown op 'aten.liner'; there are: aten.linear");
    refused(X "g:op('aten.linear', {x})", "rule.lua:3: aten.linear.default wants its argument 'weight'");
    refused(X "\ng:op('aten.mm', {x, x})", "rule.lua:4:");
    refused(X "g:op('aten.relu', {x, x})", "no argument 2");
    refused(X "g:op('aten.relu', {x, inplace = true})", "no argument 'inplace'");
    refused(X "g:op('aten.softmax.int', {x, dim = 1, [2] = 1})", "by place and by name");
    refused(X "g:op('aten.softmax.int', {x, 1.5})", "'dim' wants an integer, not 1.5");
    refused(X "g:op('aten.softmax.int', {x, '1'})", "'dim' wants an integer, not 1");
    refused(X "g:op('aten.softmax.int', {x, 7})", "rule.lua:3:");
    refused(X "g:op('aten.softmax.int', {x, 1, 'f33'})", "'dtype' wants the name of a dtype, not f33");
    refused(X "g:op('aten.relu', {{}})", "'self' wants a tensor, not a table");
    refused(X "g:op('aten.relu', {g})", "'self' wants a tensor, not a userdata");
    refused(X "g:op('aten.cat', {{x, 1}})", "'tensors' wants tensors, not 1");
    refused(X "g:op('aten.cat', {x})", "'tensors' wants a list");
    refused(X "g:op('aten.view', {x, {2, 'x'}})", "'size' wants an integer, not x");
    refused(X "g:op('aten.gelu', {x, approximate = 1})", "'approximate' wants a short string, not 1");
    refused(X "g:op('aten.scaled_dot_product_attention', {x, x, x, is_causal = 0})", "'is_causal' wants true or false, not 0");
    refused(X "g:op('aten.layer_norm', {x, {3}, eps = '1'})", "'eps' wants a number, not 1");
    refused(X "local t = {} for i = 1, 5000 do t[i] = x end g:op('aten.cat', {t})", "more than 4096 entries");
    refused(X "g:input('x', 'f32', {1})", "there is a 'x' already");
    refused(X "g:weight('x', {1})", "there is a 'x' already");
    refused("g:input('', 'f32', {1})", "a name has");
    refused("g:input(('x'):rep(1000), 'f32', {1})", "a name has");
    refused("g:input('x\\0y', 'f32', {1})", "a name has");
    refused("g:input('y', 'f31', {1})", "unknown dtype 'f31'");
    refused("g:input('y', 'f32', {1, -2})", "dim 2 of the shape of 'y' is -2");
    refused("g:input('y', 'f32', {1, 2.5})", "dim 2 of the shape of 'y' is 2.5");
    refused("g:input('y', 'f32', {1, 'a'})", "dim 2 of the shape of 'y' is a");
    refused("g:input('y', 'f32', 4)", "the shape of 'y' is a number");
    refused("g:input('y', 'f32', {1 << 40, 1 << 40})", "the shape of 'y' is too large");
    refused("g:input('y', 'f32', {1, 1, 1, 1, 1, 1, 1, 1, 1})", "more than 8 dims");
    refused("g:input('y', 'i64', {1}, {low = 3})", "unknown option 'low'");
    refused("g:input('y', 'i64', {1}, {lo = 3, hi = 3})", "an empty range");
    refused("g:input('y', 'i64', {1}, {lo = 0.5})", "option 'lo' is not an integer");
    refused("g:weight('w', {1}, {std = -1})", "'std' is negative");
    refused("g:weight('w', {1}, {std = 1 / 0})", "'std' is not a number");
    refused("g:weight('w', {1}, {dtype = 'i64'})", "normal numbers need a float");
    refused("g:weight('w', {1}, {scale = 1})", "unknown option 'scale'");
    refused(X "g:output(x, 1)", "output 2 is a number");
    refused(X "return x.size", "a value has no 'size'; it has shape, dtype, ndim and name");
    refused("g.name = 'x'", "only g.origin can be set");
    refused("g.origin = {}", "string expected");
    refused(X, "g:output(...) was not called");
    refused("error({})", "table");
}

/* What a pcall hides, and what Lua keeps, does no harm. */
static void harm(void) {
    refused(X "g:output(x) pcall(g.op, g, 'aten.mm', {x, x})", "a pcall hid it");
    refused(X "g:output(x) pcall(g.op, g, 'aten.mm', {x, x}) g:op('aten.relu', {x})", "an earlier call on this graph failed");
    refused(X "g:output(x) pcall(g.op, g, 'aten.cat', {{x, 1}}) g:output(x)", "an earlier call on this graph failed");
    refused(X "while true do x = g:op('aten.relu', {x}) end", "more than 65536 values");
    refused("g.op({}, 'aten.relu', {})", "rule.lua:3: bad argument #1");
    refused(X "x.shape = {}", "rule.lua:3:");
    refused("getmetatable(g).__index.op = print", "rule.lua:3:");
    refused("setmetatable(g, {})", "rule.lua:3:");

    char *path = write_file("rule.lua", "local M, kept = {}, nil\nfunction M.f(g)\n if kept then kept() end\n local x = g:input('x', 'f32', {2})\n"
                                        " g:output(x)\n kept = function() return x.shape end\nend\n"
                                        "local old\nfunction M.h(g)\n local x = g:input('x', 'f32', {2})\n g:output(x)\n if old then g:op('aten.relu', {old}) end\n"
                                        " old = x\nend\nfunction M.k(g) M.g = M.g or g M.g:output(M.g:input('x', 'f32', {2})) end\nreturn M\n");
    struct ak_rules *r = ak_rules_open(path, &err);
    cJSON *arg = cJSON_CreateObject();
    static const struct {
        const char *fn, *second;
    } twice[] = {{"f", "this graph is finished"}, {"h", "a value of another graph"}, {"k", "this graph is finished"}};
    for (size_t i = 0; i < 3; i++) {
        struct ak_graph a, b;
        ak_graph_init(&a);
        ak_graph_init(&b);
        int first = ak_build_graph(r, twice[i].fn, arg, &a, &err), second = ak_build_graph(r, twice[i].fn, arg, &b, &err);
        ok(!first && second && strstr(err.msg, twice[i].second), "what is left of another build is refused: %s", twice[i].second);
        ak_graph_release(&a);
        ak_graph_release(&b);
    }
    cJSON_Delete(arg);
    ak_rules_close(r);
    free(path);
}

static void right(void) {
    struct ak_graph g;
    int rc = build(&g, "local x = g:input('x', 'f32', {2, 4}, {lo = 1, hi = 9})\n"
                       "local w = g:weight('w', {6, 4}, {std = 0.5, mean = 1, dtype = opt.dtype})\n"
                       "g.origin = 'a.b'\n"
                       "local y = g:op('aten.linear', {x, w, bias = g:weight('relu', {6})})\n"
                       "assert(y.ndim == 2 and y.shape[1] == 2 and y.shape[2] == 6 and y.dtype == 'f32' and y.name == 'linear')\n"
                       "local a, b, c = g:op('aten.split.Tensor', {y, 2.0, -1})\n"
                       "assert(c.name == 'split.2' and c.shape[2] == 2)\n"
                       "g.origin = ''\n"
                       "local z = g:op('aten.add.Tensor', {g:op('aten.relu', {a}), g:op('aten.relu', {b}), alpha = 2})\n"
                       "assert(z.name == 'add')\n"
                       "z = g:op('aten.mul.Tensor', {z, 0.5})\n"
                       "z = g:op('aten.sum.dim_IntList', {z, 1, keepdim = true})\n"
                       "assert(z.shape[2] == 1)\n"
                       "local i = g:op('aten.sym_size.int', {x, 0})\n"
                       "z = g:op('aten.to.dtype', {z, 'f64'})\n"
                       "assert(z.dtype == 'f64')\n"
                       "g:output(z, c)");
    ok(rc == 0, "a graph of several ops: %s", flat(err.msg));
    if (rc) return;
    ok(g.ninputs == 1 && g.values[g.inputs[0]].lo == 1 && g.values[g.inputs[0]].hi == 9, "its input with a range");
    const struct ak_node *n = &g.nodes[0];
    ok(strcmp(n->origin, "a.b") == 0 && strcmp(g.nodes[2].origin, "") == 0, "nodes have their origins");
    ok(strcmp(g.nodes[2].name, "relu_1") == 0 && strcmp(g.nodes[3].name, "relu_2") == 0, "a node's name is never a weight's: %s, %s", g.nodes[2].name, g.nodes[3].name);
    const struct ak_value *w = &g.values[n->args[1].ids[0]];
    ok(w->kind == AK_VALUE_RANDOM && w->std == 0.5 && w->mean == 1 && w->seed < 1ull << 53, "its weight is random, with a seed that JSON holds");
    ok(g.noutputs == 2 && g.values[g.outputs[0]].t.dtype == AK_F64 && strcmp(g.values[g.outputs[1]].name, "split.2") == 0, "its outputs");
    ok(g.nodes[4].args[2].val.kind == AK_VAL_INT && g.nodes[5].args[1].val.kind == AK_VAL_FLOAT, "numbers keep their kinds");
    ak_graph_release(&g);
}

/* ---- model files ---- */

static int model(struct ak_graph *g, const char *name, const char *input, const char *dtype, const char *device) {
    char *path = ak_asprintf("%s/models/%s.lua", ak_home(), name);
    err = (struct ak_err){0};
    ak_graph_init(g);
    int rc = ak_model_lua(g, path, input, dtype, device, &err);
    free(path);
    return rc;
}

static double parameters(const struct ak_graph *g) {
    double n = 0;
    for (size_t i = 0; i < g->nvalues; i++)
        if (g->values[i].kind == AK_VALUE_RANDOM) n += (double)ak_numel(&g->values[i].t);
    return n;
}

static void models(void) {
    static const struct {
        const char *name, *other; /* a shape that is not its own */
        double millions;          /* of parameters, as published */
        int64_t last;             /* dim of the first output; 0: a scalar */
    } all[] = {{"gpt2", "2,7", 124.44, 50257},      {"gpt2-mini", "2,7", 4.47, 4096},  {"llama7b", "2,7", 6738.4, 32000}, {"llama7b-gqa", "1,9", 5933.1, 32000},
               {"llama-124m", "2,7", 124.67, 32000}, {"llama-mini", "3,5", 5.0, 4096}, {"bert", "2,7", 109.48, 768},      {"bert-mini", "3,5", 4.41, 256},
               {"custom", "3,5", 0.63, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct ak_graph g;
        int rc = model(&g, all[i].name, NULL, NULL, "cpu");
        const struct ak_tensor *out = rc ? NULL : &g.values[g.outputs[0]].t;
        ok(!rc && strcmp(g.name, all[i].name) == 0 && out->dtype == AK_F32, "%s builds: %s", all[i].name, flat(err.msg));
        if (!rc) {
            double m = parameters(&g) / 1e6;
            ok(m > 0.99 * all[i].millions && m < 1.01 * all[i].millions, "%s has %g million parameters", all[i].name, m);
            ok(all[i].last ? out->shape[out->ndim - 1] == all[i].last : out->ndim == 0, "%s has outputs of the right size", all[i].name);
            bool tagged = true;
            for (size_t k = 0; k < g.nnodes; k++)
                tagged = tagged && g.nodes[k].origin;
            ok(tagged, "%s: nodes have an origin", all[i].name);
        }
        ak_graph_release(&g);
        rc = model(&g, all[i].name, all[i].other, "bf16", "cuda");
        ok(!rc && g.values[g.inputs[0]].t.shape[1] == strtoll(strchr(all[i].other, ',') + 1, NULL, 10), "%s takes another shape: %s", all[i].name, flat(err.msg));
        bool all_bf16 = !rc;
        for (size_t k = 0; !rc && k < g.nvalues; k++)
            if (g.values[k].kind == AK_VALUE_RANDOM) all_bf16 = all_bf16 && g.values[k].t.dtype == AK_BF16;
        ok(all_bf16 && g.values[g.outputs[0]].t.dtype == AK_BF16, "%s is all bf16 if asked to", all[i].name);
        ak_graph_release(&g);
    }
}

static void model_mistakes(void) {
    static const struct {
        const char *input, *dtype, *device, *says;
        int code;
    } bad[] = {{"128", NULL, "cpu", "has 1 dims; the model takes 2, such as 1,128", AK_EXIT_USAGE},
               {"1,128,2", NULL, "cpu", "has 3 dims", AK_EXIT_USAGE},
               {"1,x", NULL, "cpu", "'1,x' is not one shape of numbers from 1 to 2147483647, such as 1,128", AK_EXIT_USAGE},
               {"1,0", NULL, "cpu", "is not one shape", AK_EXIT_USAGE},
               {"1,-3", NULL, "cpu", "is not one shape", AK_EXIT_USAGE},
               {"1,128,", NULL, "cpu", "is not one shape", AK_EXIT_USAGE},
               {"", NULL, "cpu", "is not one shape", AK_EXIT_USAGE},
               {"1,99999999999999999999", NULL, "cpu", "is not one shape", AK_EXIT_USAGE},
               {"1,2000", NULL, "cpu", "holds 1024 positions, not 2000", AK_EXIT_INPUT},
               {NULL, "f8", "cpu", "unknown dtype 'f8'", AK_EXIT_USAGE},
               {NULL, "i64", "cpu", "unknown dtype 'i64'", AK_EXIT_USAGE},
               {NULL, NULL, "tpu", "nothing for the device 'tpu'", AK_EXIT_INPUT}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ak_graph g;
        int rc = model(&g, "gpt2-mini", bad[i].input, bad[i].dtype, bad[i].device);
        bool good = rc && err.code == bad[i].code && strstr(err.msg, bad[i].says);
        ok(good, "input %s, dtype %s, device %s: %s", bad[i].input, bad[i].dtype, bad[i].device, bad[i].says);
        if (!good) printf("# got %d %s\n", err.code, err.msg);
        ak_graph_release(&g);
    }
    static const struct {
        const char *text, *says;
    } files[] = {{"return {}", "no field 'name'"},
                 {"return {name = 1}", "'name' is not a string"},
                 {"return {name = 'm'}", "no field 'inputs'"},
                 {"return {name = 'm', inputs = {cpu = 128}}", "inputs.cpu is not a shape"},
                 {"return {name = 'm', inputs = {cpu = {1, -1}}}", "inputs.cpu is not a shape"},
                 {"return {name = 'm', inputs = {cpu = {1}}, dtype = {cpu = 'i64'}}", "dtype.cpu is not f32"},
                 {"return {name = 'm', inputs = {cpu = {1}}, dtype = {cpu = 3}}", "dtype.cpu is not f32"},
                 {"return {name = 'm', inputs = {cpu = {1}}, dtype = {cpu = 'f32'}}", "no function 'build'"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct ak_graph g;
        char *path = write_file("model.lua", files[i].text);
        ak_graph_init(&g);
        int rc = ak_model_lua(&g, path, NULL, NULL, "cpu", &err);
        bool good = rc && err.code == AK_EXIT_INPUT && strstr(err.msg, files[i].says) && strstr(err.msg, "model.lua");
        ok(good, "%s: %s", files[i].text, files[i].says);
        if (!good) printf("# got %s\n", err.msg);
        ak_graph_release(&g);
        free(path);
    }
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    mistakes();
    harm();
    right();
    models();
    model_mistakes();
    char *cmd = ak_asprintf("rm -rf '%s'", dir);
    if (system(cmd)) perror(cmd);
    free(cmd);
    return done();
}
