/* The judge against kernels that are wrong in known ways (tests/bad) and such as are right
 * (tests/honest, and ours): what a file should come to stands in its first line,
 *     must fail: VERDICT: part of the reason          must pass
 * and the type it is tried on in the second, "type: T" (default layernorm), or "type: large_T": a call
 * of that type that is so large that truth has time for a part of it alone. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builder.h"
#include "classify.h"
#include "file.h"
#include "host.h"
#include "json.h"
#include "judge.h"
#include "rand.h"
#include "tap.h"

static char dir[] = "/tmp/judge.XXXXXX";
static char *build; /* build/ of this program */
static struct ak_err err;

static void must(bool good, const char *what) {
    if (good) return;
    printf("Bail out! %s: %s\n", what, err.msg);
    exit(1);
}

static void shell(const char *cmd) { err.msg[0] = 0; must(system(cmd) == 0, cmd); }

/* ---- specs: one of every type, by the tool that makes them ---- */

static void add_spec(cJSON *specs, const cJSON *group, const char *name) {
    cJSON *s = cJSON_CreateObject();
    static const char *const copied[] = {"type", "dims", "dtype", "attrs"};
    cJSON_AddStringToObject(s, "spec", name);
    for (size_t i = 0; i < 4; i++)
        cJSON_AddItemToObject(s, copied[i], cJSON_Duplicate(ak_json_get(group, copied[i]), true));
    static const char *const ones[] = {"calls", "time_us", "floor_us", "share", "headroom", "gain"};
    for (size_t i = 0; i < 6; i++)
        cJSON_AddNumberToObject(s, ones[i], 1);
    cJSON_AddStringToObject(s, "why", "");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(s, "groups"), cJSON_Duplicate(group, true));
    cJSON_AddItemToArray(specs, s);
}

static void write_plan(const cJSON *groups, const char *graph, const char *path) {
    cJSON *plan = cJSON_CreateObject(), *seen = cJSON_CreateObject();
    cJSON_AddStringToObject(plan, "format", "ak-plan");
    cJSON_AddNumberToObject(plan, "version", 1);
    cJSON_AddStringToObject(plan, "graph", graph);
    cJSON_AddNumberToObject(plan, "model_us", 1);
    cJSON *specs = cJSON_AddArrayToObject(plan, "specs");
    const cJSON *g;
    cJSON_ArrayForEach(g, groups) {
        const cJSON *k = ak_json_get(ak_json_get(g, "dims"), "k");
        char name[64];
        snprintf(name, sizeof name, "%s%s", k && k->valueint == 640 ? "large_" : "", ak_json_get(g, "type")->valuestring);
        if (ak_json_get(seen, name)) continue;
        cJSON_AddTrueToObject(seen, name);
        add_spec(specs, g, name);
    }
    FILE *f = fopen(path, "w");
    ak_json_print(f, plan);
    fclose(f);
    cJSON_Delete(seen);
    cJSON_Delete(plan);
}

static void make_specs(void) {
    struct ak_graph g;
    ak_graph_init(&g);
    must(ak_model_lua(&g, "tests/models/kinds.lua", NULL, "f32", "cpu", &err) == 0, "model");
    char *graph = ak_path_join(dir, "graph.json"), *plan = ak_path_join(dir, "plan.json"), *rules = ak_path_join(ak_home(), "rules/classify.lua");
    FILE *f = fopen(graph, "w");
    must(ak_graph_write(&g, f) == 0 && fclose(f) == 0, "graph");
    struct ak_rules *r = ak_rules_open(rules, &err);
    cJSON *groups = r ? ak_classify(&g, r, &err) : NULL;
    must(groups != NULL, "classify");
    write_plan(groups, graph, plan);
    /* starters are not what is tested: any text does */
    char *cmd = ak_asprintf("mkdir '%s/starters' && for t in matmul softmax layernorm rmsnorm flash_attention fused_mlp cross_entropy rotary_embedding "
                            "reduce; do echo > '%s'/starters/$t.c; done; '%s/bin/ak-extract' -q -s '%s/starters' -o '%s/specs' '%s'",
                            dir, dir, build, dir, dir, plan);
    shell(cmd);
    free(cmd);
    cJSON_Delete(groups);
    ak_rules_close(r);
    ak_graph_release(&g);
    free(graph);
    free(plan);
    free(rules);
}

/* ---- kernels ---- */

static const char *plain(const char *type) { return strncmp(type, "large_", 6) == 0 ? type + 6 : type; }

struct kernel {
    char *source, *so, *type, *verdict, *why; /* why: NULL where it must pass */
};
static struct kernel kernels[256];
static size_t nkernels;

static char *rest_of_line(const char *text, const char *key) {
    const char *p = strstr(text, key);
    if (!p) return NULL;
    p += strlen(key);
    size_t n = strcspn(p, "\n");
    while (n && (p[n - 1] == ' ' || p[n - 1] == '/' || p[n - 1] == '*'))
        n--;
    char *s = ak_asprintf("%.*s", (int)n, p);
    return s;
}

static void add_kernel(const char *source, const char *type) {
    size_t len;
    char *text = ak_file_read(source, 1 << 20, &len, &err);
    must(text != NULL, source);
    struct kernel *k = &kernels[nkernels];
    *k = (struct kernel){.source = ak_strdup(source), .so = ak_asprintf("%s/k%zu.so", dir, nkernels)};
    nkernels++;
    char *own = rest_of_line(text, "type: "), *expect = rest_of_line(text, "must fail: ");
    k->type = type ? ak_strdup(type) : own ? own : ak_strdup("layernorm");
    must(expect || strstr(text, "must pass"), source);
    size_t n = expect ? strcspn(expect, ":") : 0;
    k->verdict = expect ? ak_asprintf("%.*s", (int)n, expect) : ak_strdup("pass");
    k->why = expect ? ak_strdup(expect + n + 1 + (expect[n + 1] == ' ')) : NULL;
    free(expect);
    free(text);
}

static void add_folder(const char *folder) {
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort);
    must(n >= 0, folder);
    for (int i = 0; i < n; i++) {
        size_t len = strlen(list[i]->d_name);
        char *path = ak_path_join(folder, list[i]->d_name);
        bool wanted = len > 2 && strcmp(list[i]->d_name + len - 2, ".c") == 0;
#ifdef __SANITIZE_ADDRESS__ /* memory has no limit then */
        wanted &= strcmp(list[i]->d_name, "hog.c") != 0;
#endif
        if (wanted) add_kernel(path, NULL);
        free(path);
        free(list[i]);
    }
    free(list);
}

static void compile_all(void) {
    char *list = ak_path_join(dir, "compile");
    FILE *f = fopen(list, "w");
    const char *cc = getenv("CC");
    for (size_t i = 0; i < nkernels; i++)
        fprintf(f, "%s -std=gnu11 -O2 -w -D_GNU_SOURCE -march=native -fopenmp -fPIC -shared -fvisibility=hidden -Ikernels -DHONEST='\"../../kernels/vendor/%s.c\"' "
                   "$(pkg-config --cflags openblas) -o %s %s $(pkg-config --libs openblas) -lm%c",
                cc ? cc : "cc", plain(kernels[i].type), kernels[i].so, kernels[i].source, 0);
    fclose(f);
    char *cmd = ak_asprintf("xargs -0 -P$(nproc) -n1 sh -c < '%s'", list);
    shell(cmd);
    free(cmd);
    free(list);
}

/* ---- verdicts ---- */

static cJSON *judge(const char *type, const char *so, bool bench, uint64_t seed) {
    struct ak_spec spec;
    char *path = ak_asprintf("%s/specs/%s", dir, type), *opponent = ak_asprintf("%s/lib/vendor/%s.so", build, plain(type));
    must(ak_spec_read(&spec, path, &err) == 0, path);
    struct ak_trial_options o = {.judge = {.candidate = so, .opponent = opponent, .seed = seed, .timeout_s = 2, .sample_us = 5, .budget_ms = 30},
                                 .hash = "-",
                                 .opponent_name = opponent,
                                 .check = true,
                                 .bench = bench};
    cJSON *facts = ak_judge_trial(&spec, &o, &err);
    must(facts != NULL, so);
    ak_spec_release(&spec);
    free(path);
    free(opponent);
    return facts;
}

static void try_kernel(const struct kernel *k) {
    uint64_t seed = ak_rand_secret() >> 11;
    cJSON *facts = NULL;
    const char *verdict, *why, *name = strrchr(k->source, '/') + 1;
    bool good = false, passed = false;
    for (int i = 0; i < 3 && !good && !passed; i++) { /* a verdict on time may be "too busy to tell"; one that passes is final */
        cJSON_Delete(facts);
        facts = judge(k->type, k->so, true, seed + (uint64_t)i);
        verdict = ak_json_get(facts, "verdict")->valuestring, why = ak_json_get(facts, "why")->valuestring;
        good = strcmp(verdict, k->verdict) == 0 && (!k->why || strstr(why, k->why));
        passed = strcmp(verdict, "pass") == 0;
    }
    ok(good, "%s (%s): %s%s%s", name, k->type, k->verdict, k->why ? ": " : "", k->why ? k->why : "");
    if (!good) printf("# got %s: %s (seed %llu)\n", verdict, why, (unsigned long long)seed);
    if (strcmp(name, "sleeps.c") == 0 && good) {
        int64_t n = 0;
        const cJSON *vs = ak_json_get(facts, "vs_opponent");
        ok(vs && ak_json_i64(vs, "n", &n, &err) == 0 && n > 50, "sleeping does not make the samples fewer");
    }
    cJSON_Delete(facts);
}

static void try_ours(const char *type, const char *which, int times) {
    char *so = ak_asprintf("%s/lib/%s/%s.so", build, which, plain(type));
    if (ak_file_exists(so)) {
        int right = 0;
        for (int i = 0; i < times; i++) {
            uint64_t seed = ak_rand_secret() >> 11;
            cJSON *facts = judge(type, so, plain(type) != type, seed); /* timing, too, of those where it has a truth of its own */
            bool pass = strcmp(ak_json_get(facts, "verdict")->valuestring, "pass") == 0;
            if (!pass) printf("# %s: %s (seed %llu)\n", ak_json_get(facts, "verdict")->valuestring, ak_json_get(facts, "why")->valuestring, (unsigned long long)seed);
            right += pass;
            cJSON_Delete(facts);
        }
        ok(right == times, "%s/%s passes with each of %d seeds", which, type, times);
    }
    free(so);
}

static bool runs(const char *command) {
    char *cmd = ak_asprintf("pgrep -f '%s' >/dev/null", command);
    bool found = system(cmd) == 0;
    free(cmd);
    return found;
}

int main(int argc, char **argv) {
    ak_worker_main(argc, argv);
    ak_host_wait_policy(argv);
    static const char *const types[] = {"matmul", "softmax", "layernorm", "rmsnorm", "flash_attention", "fused_mlp", "cross_entropy", "rotary_embedding", "reduce"};
    static const char *const everywhere[] = {"zero", "copy", "mean", "tail", "one_element", "nothing", "nan_last"};
    int seeds = getenv("SEEDS") ? atoi(getenv("SEEDS")) : 20;
    char self[4096] = {0};
    must(readlink("/proc/self/exe", self, sizeof self - 1) > 0 && mkdtemp(dir), "start");
    *strrchr(self, '/') = 0;
    *strrchr(self, '/') = 0;
    build = self;
    setenv("AK_HOME", ".", 0);
    /* with sanitizers: tools leave what they hold to their end, and a worker dies of its own signals */
    setenv("ASAN_OPTIONS", "detect_leaks=0:handle_segv=0:handle_abort=0", 1);
    make_specs();
    add_folder("tests/bad");
    add_folder("tests/honest");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t b = 0; b < sizeof everywhere / sizeof *everywhere; b++) {
            char *path = ak_asprintf("tests/bad/%s.c", everywhere[b]);
            if (strcmp(types[t], "layernorm") != 0) add_kernel(path, types[t]);
            free(path);
        }
    compile_all();
    for (size_t i = 0; i < nkernels; i++)
        try_kernel(&kernels[i]);
    ok(!runs("sleep 719[1]"), "no process is left behind");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        try_ours(types[t], "vendor", seeds);
        try_ours(types[t], "c", seeds);
    }
    try_ours("large_matmul", "vendor", 3);
    try_ours("large_matmul", "c", 3);
    char *cmd = ak_asprintf("rm -rf '%s'", dir);
    if (!tap_failed) shell(cmd);
    free(cmd);
    return done();
}
