/* ak-verify - check a model against recorded outputs, or with our kernels against truth
 *
 *     ak-verify [-qv] --expect FILE.safetensors [--backend reference|vendor] GRAPH
 *     ak-verify [-qv] --plan plan.json --specs FOLDER [-o verify.json] GRAPH
 *     ak-import model.pt2 | ak-verify --expect model.safetensors -
 *
 * The first compares output.N with what the model makes of input.N. The second runs truth (the
 * reference), the baseline (the opponents) and the optimised model (the kept kernels) on the same
 * inputs, compares every output and times the last two in turn.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "host.h"
#include "json.h"
#include "option.h"
#include "rand.h"
#include "safetensors.h"
#include "vendor.h"
#include "verify.h"

static const char *expect, *inputs_path, *plan_path, *specs_dir, *vendor_dir, *backend = "reference", *output = "-";
static int64_t seed = -1, pairs = 201, memory_mb = 3000;
static double budget = 20;
static bool all, lockstep;

static const struct ak_option options[] = {
    {'e', "expect", "FILE", "compare with output.N of that safetensors file, given its input.N", AK_OPT_STR, &expect},
    {'b', "backend", "NAME", "with --expect: who computes, reference or vendor", AK_OPT_STR, &backend},
    {'p', "plan", "FILE", "verify the kept kernels of that plan.json", AK_OPT_STR, &plan_path},
    {'s', "specs", "FOLDER", "where the plan's specs lie (default: specs beside the plan)", AK_OPT_STR, &specs_dir},
    {'a', "all", NULL, "take kernels that are slower than the opponent, alone or in the model, too", AK_OPT_FLAG, &all},
    {'i', "inputs", "FILE", "input.N of that safetensors file instead of random ones", AK_OPT_STR, &inputs_path},
    {0, "seed", "N", "of the random inputs; a fresh one each run if negative", AK_OPT_INT, &seed},
    {'n', "runs", "N", "timing pairs", AK_OPT_INT, &pairs},
    {0, "budget", "SECONDS", "time pairs for that long at most (but for 5 pairs)", AK_OPT_NUM, &budget},
    {'m', "memory", "MB", "weights beyond a quarter of that are verified in lock-step", AK_OPT_INT, &memory_mb},
    {0, "lockstep", NULL, "in lock-step whatever the size", AK_OPT_FLAG, &lockstep},
    {0, "vendor", "FOLDER", "the opponents (default: lib/vendor beside the tools)", AK_OPT_STR, &vendor_dir},
    {'o', "output", "FILE", "write the result as JSON there", AK_OPT_STR, &output},
    {0},
};

static struct ak_err err;

/* ---- recorded tensors ---- */

/* PREFIX.0, PREFIX.1, ... of a file; their number must be n. */
static struct ak_tensor *recorded(const struct ak_safetensors *st, const char *path, const char *prefix, size_t n) {
    struct ak_tensor *t = ak_calloc(n + 1, sizeof *t);
    for (size_t i = 0; i <= n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%zu", prefix, i);
        const struct ak_tensor *found = ak_safetensors_find(st, name);
        if (i < n && !found) ak_die(AK_EXIT_INPUT, "'%s' has no '%s': the graph has %zu %ss", path, name, n, prefix);
        if (i == n && found) ak_die(AK_EXIT_INPUT, "'%s' has '%s', but the graph only %zu %ss", path, name, n, prefix);
        if (i < n) t[i] = *found;
    }
    return t;
}

static struct ak_tensor *bind_inputs(struct ak_graph *g, const struct ak_safetensors *st, const char *path) {
    struct ak_tensor *inputs = recorded(st, path, "input", g->ninputs);
    if (ak_graph_bind(g, inputs, &err)) ak_die_err(&err);
    return inputs;
}

/* ---- against recorded outputs ---- */

/* What PyTorch itself leaves open: another order of the same sums, in storage of that dtype. */
static double tolerance(enum ak_dtype d) {
    switch (d) {
    case AK_F64: return 0x1p-40;
    case AK_F32: return 2e-6;
    case AK_F16: return 0x1p-10;
    case AK_BF16: return 0x1p-7;
    default: return 0;
    }
}

static bool compare(const char *name, const struct ak_tensor *got, const struct ak_tensor *want, cJSON *list) {
    char a[160], b[160];
    if (got->dtype != want->dtype || !ak_same_shape(got, want)) {
        fprintf(stderr, "%-16s is %s, expected %s\n", name, ak_tensor_describe(got, a), ak_tensor_describe(want, b));
        return false;
    }
    struct ak_diff d = ak_diff_of(got, want);
    double tol = tolerance(want->dtype) * d.scale;
    bool ok = d.err <= tol;
    if (!ak_option_quiet)
        fprintf(stderr, "%-16s %-20s %-10.3g %-10.3g %-10.3g %s\n", name, ak_tensor_describe(want, a), d.scale, d.err, tol, ok ? "ok" : "DIFFERS");
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", name);
    ak_json_add_num(o, "scale", d.scale);
    ak_json_add_num(o, "err", d.err);
    ak_json_add_num(o, "tol", tol);
    cJSON_AddBoolToObject(o, "ok", ok);
    cJSON_AddItemToArray(list, o);
    return ok;
}

static void write_json(const cJSON *o) {
    struct ak_out out;
    if (ak_out_open(&out, output, &err)) ak_die_err(&err);
    ak_json_print_pretty(out.f, o);
    if (ak_out_close(&out, &err)) ak_die_err(&err);
}

static enum ak_backend backend_id(void) {
    if (strcmp(backend, "reference") == 0) return AK_BACKEND_REFERENCE;
    if (strcmp(backend, "vendor") != 0) ak_usage_error("--backend is reference or vendor, not '%s'", backend);
    return AK_BACKEND_VENDOR;
}

static int verify_expected(struct ak_graph *g) {
    struct ak_safetensors st;
    if (ak_safetensors_open(&st, expect, &err)) ak_die_err(&err);
    struct ak_exec_options o = {.backend = backend_id(), .vendor_dir = vendor_dir, .packed_cap = SIZE_MAX, .verbose = ak_option_verbose};
    struct ak_tensor *inputs = bind_inputs(g, &st, expect), *want = recorded(&st, expect, "output", g->noutputs);
    struct ak_tensor *got = ak_calloc(g->noutputs + 1, sizeof *got);
    struct ak_weights *w = o.weights = ak_weights_new(g, (size_t)memory_mb << 19);
    struct ak_exec *x = ak_exec_new(g, &o, &err);
    if (!x || ak_exec_run(x, inputs, got, NULL, &err)) ak_die_err(&err);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "format", "ak-expect");
    ak_json_add_i64(json, "version", 1);
    cJSON_AddStringToObject(json, "backend", backend);
    cJSON *list = cJSON_AddArrayToObject(json, "outputs");
    if (!ak_option_quiet) fprintf(stderr, "%-16s %-20s %-10s %-10s %-10s\n", "output", "", "scale", "error", "allowed");
    bool match = true;
    for (size_t i = 0; i < g->noutputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "output.%zu", i);
        match &= compare(name, &got[i], &want[i], list);
    }
    cJSON_AddBoolToObject(json, "match", match);
    write_json(json);
    if (!match) ak_warn("'%s' does not match '%s'", g->name, expect);
    cJSON_Delete(json);
    ak_exec_free(x);
    ak_weights_free(w);
    ak_safetensors_close(&st);
    free(inputs);
    free(want);
    free(got);
    return match ? AK_EXIT_YES : AK_EXIT_NO;
}

/* ---- with and without the kept kernels ---- */

static void print_summary(const cJSON *o, const struct ak_verify_result *r) {
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct ak_verify_step *s = &r->steps[i];
        if (s->group || ak_option_verbose)
            fprintf(stderr, "%5zu x %-18s %-9s %10.1f -> %10.1f us  %s\n", s->count, s->what, s->by, s->baseline_us, s->optimized_us, s->spec ? s->spec : "");
    }
    if (r->timed)
        fprintf(stderr, "speedup %.3f (%.3f to %.3f): %.3f ms -> %.3f ms\n", ak_json_get(o, "speedup")->valuedouble,
                ak_json_get(o, "speedup_low")->valuedouble, ak_json_get(o, "speedup_high")->valuedouble,
                ak_json_get(o, "baseline_ms")->valuedouble, ak_json_get(o, "optimized_ms")->valuedouble);
    if (r->preempted > (long)r->npairs)
        fprintf(stderr, "other work took a core from this %ld times while timing: the speedup may be off\n", r->preempted);
    double share = ak_verify_reference_share(r);
    if (share > 0.02) fprintf(stderr, "%.0f%% of the baseline's time is the reference's, which no vendor kernel does (-v names it)\n", 100 * share);
    const cJSON *b;
    cJSON_ArrayForEach(b, ak_json_get(o, "blame")) fprintf(stderr, "to blame: %s\n", b->valuestring);
    fprintf(stderr, "%s%s%s\n", r->match ? "match" : "not proven", r->reason ? ": " : "", r->reason ? r->reason : "");
}

static char *specs_beside(const char *plan) {
    char *dir = ak_path_dir(plan), *specs = ak_path_join(dir, "specs");
    free(dir);
    return specs;
}

static int verify_plan(struct ak_graph *g) {
    struct ak_safetensors st;
    struct ak_tensor *inputs = NULL;
    /* JSON numbers hold 53 bits */
    uint64_t used = seed >= 0 ? (uint64_t)seed : ak_rand_secret() >> 11;
    if (inputs_path) {
        if (ak_safetensors_open(&st, inputs_path, &err)) ak_die_err(&err);
        inputs = bind_inputs(g, &st, inputs_path);
    } else {
        inputs = ak_inputs_draw(g, used);
    }
    struct ak_kept_plan plan;
    char *specs = specs_dir ? ak_strdup(specs_dir) : specs_beside(plan_path);
    if (ak_kept_read(&plan, g, plan_path, specs, all, &err)) ak_die_err(&err);
    struct ak_verify_options o = {.vendor_dir = vendor_dir, .memory = (size_t)memory_mb << 20, .pairs = pairs, .budget_s = budget, .seed = used,
                                  .quiet = ak_option_quiet, .verbose = ak_option_verbose, .lockstep = lockstep, .all = all};
    struct ak_verify_result r;
    if (ak_verify(g, &plan, inputs, &o, &r, &err)) ak_die_err(&err);
    cJSON *json = ak_verify_to_json(&r, g, &plan, &o);
    write_json(json);
    if (!ak_option_quiet) print_summary(json, &r);
    bool match = r.match;
    cJSON_Delete(json);
    ak_verify_release(&r);
    ak_kept_release(&plan);
    if (inputs_path) {
        ak_safetensors_close(&st);
        free(inputs);
    } else {
        ak_inputs_free(g, inputs);
    }
    free(specs);
    return match ? AK_EXIT_YES : AK_EXIT_NO;
}

int main(int argc, char **argv) {
    ak_host_wait_policy(argv);
    int first = ak_options(argc, argv, "--expect FILE GRAPH | --plan FILE GRAPH",
                           "Checks a model against recorded outputs, or with the kept kernels against truth, and times it.", options);
    if (argc - first != 1) ak_usage_error("it wants one graph (or -)");
    if (!expect == !plan_path) ak_usage_error("it wants either --expect or --plan");
    if (pairs < 1 || memory_mb < 1) ak_usage_error("--runs and --memory want at least 1");
    if (!vendor_dir) vendor_dir = ak_vendor_dir();
    struct ak_graph g;
    if (ak_graph_read(&g, argv[first], &err)) ak_die_err(&err);
    int status = expect ? verify_expected(&g) : verify_plan(&g);
    ak_graph_release(&g);
    return status;
}
