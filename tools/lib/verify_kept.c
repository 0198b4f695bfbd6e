/* Which kernels were kept: the plan's specs and what lies in their folders. */
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "verify.h"

static char *best_hash(const char *dir) {
    struct ak_err quiet;
    char *path = ak_path_join(dir, "best.hash"), *text = ak_file_exists(path) ? ak_file_read(path, 4096, NULL, &quiet) : NULL;
    free(path);
    if (text) text[strcspn(text, " \t\r\n")] = '\0';
    return text;
}

/* How many times faster than the opponent its trial says it may be at most; 0 if there is no word on that.
 * (Only that: its trial may be an old one, and the model itself decides.) */
static double speedup_of(const char *dir) {
    char *hash = best_hash(dir);
    if (!hash) return 0;
    char *path = ak_asprintf("%s/trials/%s/facts.json", dir, hash);
    struct ak_err quiet;
    cJSON *facts = ak_file_exists(path) ? ak_json_read(path, &quiet) : NULL;
    double v;
    if (!facts || ak_json_num(ak_json_get(facts, "vs_opponent"), "high", &v, &quiet)) v = 0;
    cJSON_Delete(facts);
    free(path);
    free(hash);
    return v;
}

static void find_kernel(struct ak_kept_plan *p, struct ak_kept *k, const char *specs_dir, bool all) {
    char *dir = ak_path_join(specs_dir, k->spec), *so = ak_path_join(dir, "best.so");
    double speedup = speedup_of(dir);
    if (!ak_file_exists(so)) {
        k->why = "nothing was kept";
    } else if (speedup > 0 && speedup < 1 && !all) {
        k->why = "slower than the opponent";
    } else {
        k->kernel = ak_arena_strdup(&p->arena, so);
    }
    free(dir);
    free(so);
}

static int read_spec(struct ak_kept_plan *p, const struct ak_graph *g, const cJSON *o, const char *specs_dir, bool all, struct ak_err *err) {
    const char *name, *type;
    const cJSON *groups, *v;
    if (ak_json_str(o, "spec", &name, err) || ak_json_str(o, "type", &type, err) || ak_json_array(o, "groups", &groups, err)) return -1;
    struct ak_kept *k = &p->specs[p->nspecs++];
    k->spec = ak_arena_strdup(&p->arena, name);
    k->type = ak_arena_strdup(&p->arena, type);
    find_kernel(p, k, specs_dir, all);
    cJSON_ArrayForEach(v, groups) {
        struct ak_group *group = &p->groups[p->ngroups];
        if (ak_group_from_json(group, g, v, &p->arena, err)) return ak_fail_in(err, "spec '%s'", name);
        group->spec = k->spec;
        group->kernel = k->kernel;
        p->spec_of[p->ngroups++] = (int)(p->nspecs - 1);
        k->sites++;
    }
    return 0;
}

int ak_kept_read(struct ak_kept_plan *p, const struct ak_graph *g, const char *plan_path, const char *specs_dir, bool all,
                 struct ak_err *err) {
    memset(p, 0, sizeof *p);
    cJSON *plan = ak_json_read(plan_path, err);
    const cJSON *specs, *v;
    if (!plan) return -1;
    int rc = -1;
    if (ak_json_check_format(plan, "ak-plan", 1, plan_path, "ak-rank plan", err) || ak_json_array(plan, "specs", &specs, err)) goto out;
    size_t n = (size_t)cJSON_GetArraySize(specs), ngroups = 0;
    cJSON_ArrayForEach(v, specs) ngroups += (size_t)cJSON_GetArraySize(ak_json_get(v, "groups"));
    p->specs = ak_arena_alloc(&p->arena, (n + 1) * sizeof *p->specs);
    p->groups = ak_arena_alloc(&p->arena, (ngroups + 1) * sizeof *p->groups);
    p->spec_of = ak_arena_alloc(&p->arena, (ngroups + 1) * sizeof *p->spec_of);
    rc = 0;
    cJSON_ArrayForEach(v, specs) if ((rc = read_spec(p, g, v, specs_dir, all, err))) break;
out:
    if (rc) {
        ak_fail_in(err, "'%s'", plan_path);
        ak_kept_release(p);
    }
    cJSON_Delete(plan);
    return rc;
}

void ak_kept_release(struct ak_kept_plan *p) {
    ak_arena_release(&p->arena);
    memset(p, 0, sizeof *p);
}
