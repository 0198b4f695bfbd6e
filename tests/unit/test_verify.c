/* ak_verify over a model made by hand: a right kernel, a wrong one, one that does not run. */
#include <math.h>

#include "hand.h"
#include "json.h"
#include "stats.h"
#include "tap.h"
#include "verify.h"

static struct ak_graph g;
static char *plan_path, *specs;

static void copy(const char *from, const char *spec, const char *name) {
    char *cmd = ak_asprintf("mkdir -p %s/%s && cp %s/%s %s/%s/%s", specs, spec, dir, from, specs, spec, name);
    must(system(cmd) == 0, cmd);
    free(cmd);
}

static cJSON *arg(const char *name, const char *role, int value_id) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "role", role);
    cJSON_AddStringToObject(o, "value", g.values[value_id].name);
    ak_tensor_to_json(o, &g.values[value_id].t);
    return o;
}

static cJSON *group(const char *type, const char *const *nodes, size_t n, cJSON **args, size_t nargs) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", type);
    cJSON_AddItemToObject(o, "nodes", cJSON_CreateStringArray(nodes, (int)n));
    cJSON_AddObjectToObject(o, "attrs");
    cJSON *list = cJSON_AddArrayToObject(o, "args");
    for (size_t i = 0; i < nargs; i++)
        cJSON_AddItemToArray(list, args[i]);
    return o;
}

static void add_spec(cJSON *list, const char *name, const char *type, cJSON *gr) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "spec", name);
    cJSON_AddStringToObject(o, "type", type);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "groups"), gr);
    cJSON_AddItemToArray(list, o);
}

/* muladd of the first two nodes, and the last add as a spec of its own. */
static void write_plan(void) {
    const int *v = group_values;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", "ak-plan");
    cJSON_AddNumberToObject(o, "version", 1);
    cJSON *list = cJSON_AddArrayToObject(o, "specs");
    cJSON *a[] = {arg("x", "input", v[0]), arg("y", "input", v[1]), arg("z", "input", v[2]), arg("out", "output", v[4])};
    add_spec(list, "muladd-3x5", "muladd", group("muladd", (const char *const[]){"mul", "add"}, 2, a, 4));
    cJSON *b[] = {arg("self", "input", g.nodes[2].outs[0]), arg("other", "input", v[0]), arg("out", "output", v[5])};
    add_spec(list, "add-3x5", "aten.add.Tensor", group("aten.add.Tensor", (const char *const[]){"add_1"}, 1, b, 3));
    FILE *f = fopen(plan_path, "w");
    ak_json_print(f, o);
    fclose(f);
    cJSON_Delete(o);
}

static struct ak_verify_result r;
static struct ak_kept_plan plan;
static struct ak_verify_options opt = {.vendor_dir = dir, .memory = (size_t)1 << 30, .pairs = 15, .budget_s = 5, .seed = 8, .quiet = true, .all = true};

static bool verify(void) {
    struct ak_tensor *in = ak_inputs_draw(&g, opt.seed);
    must(ak_kept_read(&plan, &g, plan_path, specs, false, &err) == 0, "plan");
    int rc = ak_verify(&g, &plan, in, &opt, &r, &err);
    ak_inputs_free(&g, in);
    return rc == 0;
}

static void clear(void) {
    ak_verify_release(&r);
    ak_kept_release(&plan);
}

static void test_both_methods(const char *method) {
    copy("muladd.so", "muladd-3x5", "best.so");
    ok(verify() && r.match && !r.reason, "%s: a right kernel matches", method);
    ok(plan.specs[0].ran == 1 && plan.specs[0].calls >= 2 && plan.specs[0].sites == 1, "it ran at its call site");
    ok(!plan.specs[1].kernel && strstr(plan.specs[1].why, "nothing was kept"), "a spec without a kernel stays with the opponent");
    cJSON *o = ak_verify_to_json(&r, &g, &plan, &opt);
    double speedup, low, high;
    ok(!ak_json_num(o, "speedup", &speedup, &err) && !ak_json_num(o, "speedup_low", &low, &err) && !ak_json_num(o, "speedup_high", &high, &err) &&
           0 < low && low <= speedup && speedup <= high,
       "the result holds the speedup and its interval");
    ok(cJSON_GetArraySize(ak_json_get(o, "steps")) == 3 && cJSON_GetArraySize(ak_json_get(o, "kernels")) == 1, "and its steps and kernels");
    cJSON_Delete(o);
    clear();

    copy("wrong.so", "muladd-3x5", "best.so");
    copy("add.so", "add-3x5", "best.so");
    ok(verify() && !r.match && strstr(r.reason, "add_1"), "%s: a kernel with one wrong element does not", method);
    ok(plan.specs[0].blamed && !plan.specs[1].blamed, "and it is the one to blame");
    clear();

    copy("refuse.so", "muladd-3x5", "best.so");
    ok(verify() && !r.match && strstr(r.reason, "0 of its 1 call sites"), "%s: a kernel that never ran is no match", method);
    clear();
    char *cmd = ak_asprintf("rm -r %s", specs);
    must(system(cmd) == 0, cmd);
    free(cmd);

    ok(verify() && !r.match && strstr(r.reason, "0 call sites replaced"), "%s: nothing kept is no match", method);
    clear();
}

static void test_slower(void) {
    copy("muladd.so", "muladd-3x5", "best.so");
    char *cmd = ak_asprintf("cd %s/muladd-3x5 && echo abc > best.hash && mkdir -p trials/abc && echo '{\"vs_opponent\":{\"speedup\":0.8,\"high\":0.9}}' > trials/abc/facts.json", specs);
    must(system(cmd) == 0, cmd);
    free(cmd);
    must(ak_kept_read(&plan, &g, plan_path, specs, false, &err) == 0, "plan");
    ok(!plan.specs[0].kernel && strstr(plan.specs[0].why, "slower than"), "a kernel slower than the opponent is left out");
    ak_kept_release(&plan);
    must(ak_kept_read(&plan, &g, plan_path, specs, true, &err) == 0, "plan");
    ok(plan.specs[0].kernel != NULL, "unless all are wanted");
    ak_kept_release(&plan);
}

int main(void) {
    make_dir();
    compile("add.c", "add.so", "");
    compile("muladd.c", "muladd.so", "");
    compile("muladd.c", "wrong.so", "-DWRONG");
    compile("muladd.c", "refuse.so", "-DREFUSE");
    char *index = ak_path_join(dir, "INDEX");
    FILE *f = fopen(index, "w");
    fputs("muladd muladd.so\naten.add.Tensor add.so\n", f);
    fclose(f);
    plan_path = ak_path_join(dir, "plan.json");
    specs = ak_path_join(dir, "specs");
    group_model(&g);
    write_plan();
    test_both_methods("whole");
    opt.lockstep = true;
    test_both_methods("lock-step");
    test_slower();
    remove_dir();
    ak_graph_release(&g);
    free(plan_path), free(specs), free(index);
    return done();
}
