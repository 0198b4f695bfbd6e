#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "mem.h"

/* Splits profile.jsonl into {nodes, groups}; *header is its first line. */
static int read_profile(const char *path, cJSON *o, cJSON **header, struct ak_err *err) {
    size_t len;
    char *text = ak_file_read(path, AK_FILE_LIMIT, &len, err), *save = NULL;
    if (!text) return -1;
    cJSON *nodes = cJSON_AddArrayToObject(o, "nodes"), *groups = cJSON_AddArrayToObject(o, "groups");
    int line = 0, rc = 0;
    for (char *s = strtok_r(text, "\n", &save); s && rc == 0; s = strtok_r(NULL, "\n", &save)) {
        char *where = ak_asprintf("%s:%d", path, ++line);
        cJSON *v = ak_json_parse(s, strlen(s), where, err);
        const char *kind = "";
        if (!v)
            rc = -1;
        else if (line == 1)
            rc = ak_json_check_format(v, "ak-profile", 1, path, "ak-profile", err);
        else if (ak_json_str(v, "kind", &kind, err))
            rc = ak_fail_in(err, "'%s'", where);
        free(where);
        if (line == 1 && rc == 0) {
            *header = v;
        } else if (rc == 0 && strcmp(kind, "node") == 0) {
            cJSON_AddItemToArray(nodes, v);
        } else if (rc == 0 && strcmp(kind, "group") == 0) {
            cJSON_AddItemToArray(groups, v);
        } else {
            cJSON_Delete(v);
        }
    }
    free(text);
    if (rc == 0 && !*header) rc = ak_fail(err, AK_EXIT_INPUT, "'%s' is empty: run ak-profile to make it", path);
    return rc;
}

cJSON *ak_plan_make(const char *profile_path, struct ak_rules *rank, struct ak_err *err) {
    cJSON *o = cJSON_CreateObject(), *header = NULL, *plan = NULL;
    cJSON *made = read_profile(profile_path, o, &header, err) ? NULL : ak_rules_call(rank, "plan", o, err);
    if (made) {
        plan = cJSON_CreateObject();
        cJSON_AddStringToObject(plan, "format", "ak-plan");
        cJSON_AddNumberToObject(plan, "version", 1);
        static const char *const kept[] = {"graph", "model"};
        for (size_t i = 0; i < 2; i++)
            cJSON_AddItemToObject(plan, kept[i], cJSON_Duplicate(ak_json_get(header, kept[i]), true));
        while (made->child) {
            cJSON *item = cJSON_DetachItemViaPointer(made, made->child);
            cJSON_AddItemToObject(plan, item->string, item);
        }
    }
    cJSON_Delete(made);
    cJSON_Delete(header);
    cJSON_Delete(o);
    return plan;
}

cJSON *ak_plan_read(const char *path, struct ak_err *err) {
    cJSON *plan = ak_json_read(path, err);
    if (plan && ak_json_check_format(plan, "ak-plan", 1, path, "ak-rank plan", err)) {
        cJSON_Delete(plan);
        return NULL;
    }
    return plan;
}

int ak_plan_print(const cJSON *plan, FILE *f, struct ak_err *err) {
    const char *model;
    const cJSON *specs, *s;
    double model_us;
    if (ak_json_str(plan, "model", &model, err) || ak_json_num(plan, "model_us", &model_us, err) ||
        ak_json_array(plan, "specs", &specs, err))
        return -1;
    fprintf(f, "%s: %.3f ms a run\n", model, model_us * 1e-3);
    fprintf(f, "%4s  %-44s %5s %10s %10s %6s %9s %9s\n", "rank", "spec", "calls", "us a call", "floor us", "share", "headroom",
            "gain us");
    int rank = 0;
    double rest = model_us;
    cJSON_ArrayForEach(s, specs) {
        const char *name;
        double calls, us, floor_us, share, headroom, gain;
        if (ak_json_str(s, "spec", &name, err) || ak_json_num(s, "calls", &calls, err) || ak_json_num(s, "time_us", &us, err) ||
            ak_json_num(s, "floor_us", &floor_us, err) || ak_json_num(s, "share", &share, err) ||
            ak_json_num(s, "headroom", &headroom, err) || ak_json_num(s, "gain_us", &gain, err))
            return ak_fail_in(err, "spec %d of the plan", rank);
        fprintf(f, "%4d  %-44s %5.0f %10.1f %10.1f %5.1f%% %8.2fx %9.1f\n", ++rank, name, calls, us, floor_us, 100 * share, headroom,
                gain);
        rest -= calls * us;
    }
    fprintf(f, "%4s  %-44s %5s %10s %10s %5.1f%%\n", "-", "(no kernel type)", "", "", "", model_us > 0 ? 100 * rest / model_us : 0);
    return 0;
}
