/* Model files: what shape and dtype to build them in. */
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "json.h"

static bool is_shape(const cJSON *v) {
    const cJSON *d;
    int64_t n;
    struct ak_err ignored;
    bool good = cJSON_IsArray(v) && v->child && cJSON_GetArraySize(v) <= AK_MAX_DIMS;
    cJSON_ArrayForEach(d, v) good = good && ak_json_as_i64(d, &n, &ignored) == 0 && n > 0;
    return good;
}

/* field.device of the module; NULL on error. */
static cJSON *own(struct ak_rules *r, const char *field, const char *device, const char *path, struct ak_err *err) {
    cJSON *all = ak_rules_field(r, field, err);
    if (!all) return NULL;
    cJSON *v = cJSON_DetachItemFromObjectCaseSensitive(all, device);
    if (!v) ak_fail(err, AK_EXIT_INPUT, "%s: '%s' has nothing for the device '%s'", path, field, device);
    cJSON_Delete(all);
    return v;
}

static cJSON *own_shape(struct ak_rules *r, const char *device, const char *path, struct ak_err *err) {
    cJSON *v = own(r, "inputs", device, path, err);
    if (!v || is_shape(v)) return v;
    ak_fail(err, AK_EXIT_INPUT, "%s: inputs.%s is not a shape such as {1, 128}", path, device);
    cJSON_Delete(v);
    return NULL;
}

/* "1,128" as a JSON array of as many dims as the model's own shape. */
static cJSON *given_shape(const char *text, const cJSON *model_own, struct ak_err *err) {
    cJSON *a = cJSON_CreateArray();
    bool good = false;
    for (const char *s = text; cJSON_GetArraySize(a) < AK_MAX_DIMS;) {
        char *end;
        long long v = strtoll(s, &end, 10);
        if (end == s || v < 1 || v > INT32_MAX || (*end && *end != ',')) break;
        cJSON_AddItemToArray(a, ak_json_new_i64(v));
        good = !*end;
        if (good) break;
        s = end + 1;
    }
    int want = cJSON_GetArraySize(model_own);
    if (good && cJSON_GetArraySize(a) == want) return a;
    char *example = cJSON_PrintUnformatted(model_own);
    if (good)
        ak_fail(err, AK_EXIT_USAGE, "input shape '%s' has %d dims; the model takes %d, such as %.*s", text, cJSON_GetArraySize(a), want,
                (int)strlen(example) - 2, example + 1);
    else
        ak_fail(err, AK_EXIT_USAGE, "input shape '%s' is not one shape of numbers from 1 to 2147483647, such as %.*s (a model in Lua takes one)", text, (int)strlen(example) - 2, example + 1);
    cJSON_free(example);
    cJSON_Delete(a);
    return NULL;
}

static cJSON *shape_of(struct ak_rules *r, const char *input, const char *device, const char *path, struct ak_err *err) {
    cJSON *model_own = own_shape(r, device, path, err);
    if (!model_own || !input) return model_own;
    cJSON *given = given_shape(input, model_own, err);
    cJSON_Delete(model_own);
    return given;
}

static cJSON *dtype_of(struct ak_rules *r, const char *dtype, const char *device, const char *path, struct ak_err *err) {
    cJSON *v = dtype ? cJSON_CreateString(dtype) : own(r, "dtype", device, path, err);
    if (!v) return NULL;
    int d = cJSON_IsString(v) ? ak_dtype_from_name(v->valuestring) : -1;
    if (d >= 0 && ak_dtype_is_float((enum ak_dtype)d)) return v;
    if (dtype)
        ak_fail(err, AK_EXIT_USAGE, "unknown dtype '%s': a model is f32, f16, bf16 or f64", dtype);
    else
        ak_fail(err, AK_EXIT_INPUT, "%s: dtype.%s is not f32, f16, bf16 or f64", path, device);
    cJSON_Delete(v);
    return NULL;
}

static int build(struct ak_rules *r, struct ak_graph *g, const char *path, const char *input, const char *dtype, const char *device,
                 cJSON *opt, struct ak_err *err) {
    cJSON *name = ak_rules_field(r, "name", err), *shape, *d;
    if (!name) return -1;
    bool named = cJSON_IsString(name);
    if (named) g->name = ak_arena_strdup(&g->arena, name->valuestring);
    cJSON_Delete(name);
    if (!named) return ak_fail(err, AK_EXIT_INPUT, "%s: 'name' is not a string", path);
    if (!(shape = shape_of(r, input, device, path, err))) return -1;
    cJSON_AddItemToObject(opt, "shape", shape);
    if (!(d = dtype_of(r, dtype, device, path, err))) return -1;
    cJSON_AddItemToObject(opt, "dtype", d);
    cJSON_AddStringToObject(opt, "device", device);
    return ak_build_graph(r, "build", opt, g, err);
}

int ak_model_lua(struct ak_graph *g, const char *path, const char *input, const char *dtype, const char *device, struct ak_err *err) {
    struct ak_rules *r = ak_rules_open(path, err);
    if (!r) return -1;
    cJSON *opt = cJSON_CreateObject();
    g->source = ak_arena_strdup(&g->arena, path);
    int rc = build(r, g, path, input, dtype, device, opt, err);
    cJSON_Delete(opt);
    ak_rules_close(r);
    return rc;
}
