/* ak-extract - give each spec of a plan a folder with spec.json and the kernel to edit
 *
 *     ak-extract [-g GRAPH] -o FOLDER [PLAN]
 *     ak-rank plan profile.jsonl | ak-extract -o specs -
 *
 * A folder that exists keeps its kernel; its spec.json is replaced only where it differs.
 */
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "file.h"
#include "group.h"
#include "json.h"
#include "mem.h"
#include "option.h"
#include "plan.h"
#include "rules.h"
#include "subgraph.h"

struct extract {
    struct ak_graph graph;
    struct ak_rules *rules;
    const char *out_dir, *starters;
    struct ak_err err;
};

/* The spec as the rules see it: {type, dims, attrs (plain), dtype, args}. */
static cJSON *for_rules(const cJSON *spec, const cJSON *group, struct extract *x) {
    cJSON *o = cJSON_CreateObject(), *attrs = cJSON_AddObjectToObject(o, "attrs");
    static const char *const copied[] = {"type", "dims", "dtype"};
    for (size_t i = 0; i < 3; i++) {
        const cJSON *v = ak_json_get(spec, copied[i]);
        if (!v) ak_die(AK_EXIT_INPUT, "a spec of the plan has no '%s'", copied[i]);
        cJSON_AddItemToObject(o, copied[i], cJSON_Duplicate(v, true));
    }
    const cJSON *a, *args;
    cJSON_ArrayForEach(a, ak_json_get(spec, "attrs")) cJSON_AddItemToObject(attrs, a->string, cJSON_Duplicate(a->child, true));
    if (ak_json_array(group, "args", &args, &x->err)) ak_die_err(&x->err);
    cJSON_AddItemToObject(o, "args", cJSON_Duplicate(args, true));
    return o;
}

static void add_case(cJSON *cases, const char *stage, const char *name, const char *family, cJSON *args, double tol, int graph) {
    cJSON *c = cJSON_CreateObject();
    cJSON_AddStringToObject(c, "stage", stage);
    cJSON_AddStringToObject(c, "name", name);
    cJSON_AddStringToObject(c, "family", family);
    cJSON_AddItemToObject(c, "args", args);
    ak_json_add_num(c, "tol", tol);
    ak_json_add_i64(c, "graph", graph);
    cJSON_AddItemToArray(cases, c);
}

static cJSON *call(struct extract *x, const char *fn, const cJSON *arg) {
    cJSON *v = ak_rules_call(x->rules, fn, arg, &x->err);
    if (!v) ak_die_err(&x->err);
    return v;
}

/* Appends the canonical graph of a swept case, or finds the one that a case of equal dims has. */
static int graph_of(struct extract *x, const cJSON *spec, const cJSON *c, cJSON *graphs, cJSON *known) {
    cJSON *arg = cJSON_Duplicate(spec, true);
    cJSON_ReplaceItemInObjectCaseSensitive(arg, "dims", cJSON_Duplicate(ak_json_get(c, "dims"), true));
    cJSON_ReplaceItemInObjectCaseSensitive(arg, "args", cJSON_Duplicate(ak_json_get(c, "args"), true));
    char *key = cJSON_PrintUnformatted(arg);
    const cJSON *hit = ak_json_get(known, key);
    int index = hit ? hit->valueint : cJSON_GetArraySize(graphs);
    if (!hit) {
        struct ak_graph g;
        ak_graph_init(&g);
        if (ak_build_graph(x->rules, "graph", arg, &g, &x->err)) ak_die_err(&x->err);
        cJSON_AddItemToArray(graphs, ak_graph_to_json(&g));
        cJSON_AddNumberToObject(known, key, index);
        ak_graph_release(&g);
    }
    cJSON_free(key);
    cJSON_Delete(arg);
    return index;
}

static void add_cases(struct extract *x, const cJSON *rule_spec, cJSON *cases, cJSON *graphs) {
    cJSON *list = call(x, "cases", rule_spec), *known = cJSON_CreateObject();
    const cJSON *c;
    cJSON_ArrayForEach(c, list) {
        const char *stage, *name, *family;
        double tol;
        if (ak_json_str(c, "stage", &stage, &x->err) || ak_json_str(c, "name", &name, &x->err) ||
            ak_json_str(c, "family", &family, &x->err) || ak_json_num(c, "tol", &tol, &x->err))
            ak_die_err(&x->err);
        add_case(cases, stage, name, family, cJSON_Duplicate(ak_json_get(c, "args"), true), tol,
                 graph_of(x, rule_spec, c, graphs, known));
    }
    cJSON_Delete(list);
    cJSON_Delete(known);
}

static cJSON *make_spec(struct extract *x, const cJSON *planned) {
    const cJSON *groups;
    if (ak_json_array(planned, "groups", &groups, &x->err)) ak_die_err(&x->err);
    const cJSON *group_json = groups->child;
    struct ak_arena arena = {0};
    struct ak_group group;
    struct ak_graph own;
    if (!group_json) ak_die(AK_EXIT_INPUT, "a spec of the plan has no groups");
    if (ak_group_from_json(&group, &x->graph, group_json, &arena, &x->err) || ak_subgraph(&x->graph, &group, &own, &x->err))
        ak_die_err(&x->err);

    cJSON *o = cJSON_CreateObject(), *rule_spec = for_rules(planned, group_json, x);
    cJSON_AddStringToObject(o, "format", "ak-spec");
    cJSON_AddNumberToObject(o, "version", 1);
    static const char *const copied[] = {"spec", "type", "dtype", "dims", "attrs", "calls"};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        const cJSON *v = ak_json_get(planned, copied[i]);
        if (!v) ak_die(AK_EXIT_INPUT, "a spec of the plan has no '%s'", copied[i]);
        cJSON_AddItemToObject(o, i ? copied[i] : "name", cJSON_Duplicate(v, true));
    }
    cJSON *cost = call(x, "cost", rule_spec), *tolerance = ak_rules_field(x->rules, "tolerance", &x->err);
    if (!tolerance) ak_die_err(&x->err);
    double flops, bytes, factor;
    const char *why;
    if (ak_json_num(cost, "flops", &flops, &x->err) || ak_json_num(cost, "bytes", &bytes, &x->err) ||
        ak_json_num(tolerance, "factor", &factor, &x->err) || ak_json_str(tolerance, "why", &why, &x->err))
        ak_die_err(&x->err);
    ak_json_add_num(o, "flops", flops);
    ak_json_add_num(o, "bytes", bytes);
    cJSON_AddStringToObject(o, "why_tol", why);

    cJSON *graphs = cJSON_AddArrayToObject(o, "graphs"), *cases = cJSON_AddArrayToObject(o, "cases");
    cJSON_AddItemToArray(graphs, ak_graph_to_json(&own));
    add_case(cases, "own", "own shape", "normal", call(x, "own", rule_spec), factor, 0);
    add_cases(x, rule_spec, cases, graphs);

    cJSON_Delete(cost);
    cJSON_Delete(tolerance);
    cJSON_Delete(rule_spec);
    ak_graph_release(&own);
    ak_arena_release(&arena);
    return o;
}

/* Writes text to path unless it is there already, so that nothing that depends on it is stale. */
static void write_changed(struct extract *x, const char *path, const char *text, size_t len) {
    size_t had = 0;
    char *old = ak_file_exists(path) ? ak_file_read(path, AK_FILE_LIMIT, &had, &x->err) : NULL;
    bool same = old && had == len && memcmp(old, text, len) == 0;
    free(old);
    struct ak_out out;
    if (same) return;
    if (ak_out_open(&out, path, &x->err)) ak_die_err(&x->err);
    fwrite(text, 1, len, out.f);
    if (ak_out_close(&out, &x->err)) ak_die_err(&x->err);
}

static void extract(struct extract *x, const cJSON *planned) {
    const char *name, *type;
    if (ak_json_str(planned, "spec", &name, &x->err) || ak_json_str(planned, "type", &type, &x->err)) ak_die_err(&x->err);
    if (strchr(name, '/') || name[0] == '.') ak_die(AK_EXIT_INPUT, "'%s' cannot be the name of a spec", name);
    char *dir = ak_path_join(x->out_dir, name), *file = ak_path_join(dir, "spec.json"), *kernel = ak_path_join(dir, "kernel.c");
    if (ak_mkdirs(dir, &x->err)) ak_die_err(&x->err);

    cJSON *spec = make_spec(x, planned);
    char *text = cJSON_PrintUnformatted(spec);
    write_changed(x, file, text, strlen(text));
    if (!ak_file_exists(kernel)) {
        char *starter = ak_asprintf("%s/%s.c", x->starters, type);
        size_t len;
        char *source = ak_file_read(starter, AK_FILE_LIMIT, &len, &x->err);
        if (!source) ak_die_err(&x->err);
        write_changed(x, kernel, source, len);
        free(source);
        free(starter);
    }
    if (!ak_option_quiet) printf("%s\n", dir);
    cJSON_free(text);
    cJSON_Delete(spec);
    free(dir);
    free(file);
    free(kernel);
}

static const char *out_dir = "specs", *starters, *rules_path, *graph_path;
static const struct ak_option options[] = {
    {'o', "output", "FOLDER", "make the specs' folders there", AK_OPT_STR, &out_dir},
    {'g', "graph", "GRAPH", "the graph, where it is not where the plan says", AK_OPT_STR, &graph_path},
    {'s', "starters", "FOLDER", "the kernels that searches begin from", AK_OPT_STR, &starters},
    {0, "kernels", "FILE", "the kernel types", AK_OPT_STR, &rules_path},
    {0},
};

int main(int argc, char **argv) {
    starters = ak_path_join(ak_home(), "kernels/c");
    rules_path = ak_path_join(ak_home(), "rules/kernels.lua");
    int first = ak_options(argc, argv, "[PLAN]", "Gives each spec of a plan a folder with spec.json and the kernel to edit.", options);
    if (argc - first > 1) ak_usage_error("one plan at a time");

    struct extract x = {.out_dir = out_dir, .starters = starters};
    cJSON *plan = ak_plan_read(first < argc ? argv[first] : "-", &x.err);
    const cJSON *specs, *spec;
    if (!plan || ak_json_array(plan, "specs", &specs, &x.err)) ak_die_err(&x.err);
    if (!graph_path && ak_json_str(plan, "graph", &graph_path, &x.err)) ak_die_err(&x.err);
    ak_graph_init(&x.graph);
    if (ak_graph_read(&x.graph, graph_path, &x.err) || !(x.rules = ak_rules_open(rules_path, &x.err))) ak_die_err(&x.err);
    cJSON_ArrayForEach(spec, specs) extract(&x, spec);
    if (fflush(stdout)) ak_die_errno(AK_EXIT_IO, "cannot write standard output");
    ak_rules_close(x.rules);
    ak_graph_release(&x.graph);
    cJSON_Delete(plan);
    return AK_EXIT_YES;
}
