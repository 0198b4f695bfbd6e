#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "mem.h"

cJSON *ak_json_parse(const char *text, size_t len, const char *name, struct ak_err *err) {
    const char *end = NULL;
    cJSON *v = cJSON_ParseWithLengthOpts(text, len + 1, &end, true);
    if (v) return v;
    size_t line = 1, col = 1;
    for (const char *p = text; p < end; p++) {
        col = *p == '\n' ? 1 : col + 1;
        line += *p == '\n';
    }
    ak_fail(err, AK_EXIT_INPUT, "'%s' is not JSON: line %zu, column %zu", name, line, col);
    return NULL;
}

cJSON *ak_json_read(const char *path, struct ak_err *err) {
    size_t len;
    char *text = ak_file_read(path, AK_FILE_LIMIT, &len, err);
    cJSON *v = text ? ak_json_parse(text, len, path, err) : NULL;
    free(text);
    return v;
}

const cJSON *ak_json_get(const cJSON *o, const char *key) { return cJSON_GetObjectItemCaseSensitive(o, key); }

int ak_json_check_format(const cJSON *o, const char *format, int version, const char *name, const char *remedy,
                         struct ak_err *err) {
    const cJSON *f = ak_json_get(o, "format"), *v = ak_json_get(o, "version");
    if (!cJSON_IsString(f) || strcmp(f->valuestring, format))
        return ak_fail(err, AK_EXIT_INPUT, "'%s' is not an %s file: run %s to make one", name, format, remedy);
    if (!cJSON_IsNumber(v) || v->valuedouble != version)
        return ak_fail(err, AK_EXIT_INPUT, "'%s' has another version of %s (this tool reads %d): run %s to rebuild it",
                       name, format, version, remedy);
    return 0;
}

static int wrong(const char *key, const char *type, const cJSON *v, struct ak_err *err) {
    return v ? ak_fail(err, AK_EXIT_INPUT, "field '%s' is not %s", key, type)
             : ak_fail(err, AK_EXIT_INPUT, "field '%s' is missing", key);
}

int ak_json_str(const cJSON *o, const char *key, const char **out, struct ak_err *err) {
    const cJSON *v = ak_json_get(o, key);
    if (!cJSON_IsString(v)) return wrong(key, "a string", v, err);
    *out = v->valuestring;
    return 0;
}

int ak_json_as_i64(const cJSON *v, int64_t *out, struct ak_err *err) {
    if (cJSON_IsRaw(v)) { /* ak_json_new_i64 */
        *out = strtoll(v->valuestring, NULL, 10);
        return 0;
    }
    if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) || isinf(v->valuedouble))
        return ak_fail(err, AK_EXIT_INPUT, "not an integer");
    double d = v->valuedouble;
    *out = d >= 0x1p63 ? INT64_MAX : d <= -0x1p63 ? INT64_MIN : (int64_t)d;
    return 0;
}

int ak_json_as_num(const cJSON *v, double *out, struct ak_err *err) {
    if (cJSON_IsNumber(v) || cJSON_IsRaw(v)) {
        *out = cJSON_IsRaw(v) ? strtod(v->valuestring, NULL) : v->valuedouble;
        return 0;
    }
    if (cJSON_IsString(v)) {
        static const struct {
            const char *name;
            double v;
        } special[] = {{"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"NaN", NAN}};
        for (size_t i = 0; i < 3; i++)
            if (strcmp(v->valuestring, special[i].name) == 0) {
                *out = special[i].v;
                return 0;
            }
    }
    return ak_fail(err, AK_EXIT_INPUT, "not a number");
}

int ak_json_i64(const cJSON *o, const char *key, int64_t *out, struct ak_err *err) {
    const cJSON *v = ak_json_get(o, key);
    return v && ak_json_as_i64(v, out, err) == 0 ? 0 : wrong(key, "an integer", v, err);
}

int ak_json_num(const cJSON *o, const char *key, double *out, struct ak_err *err) {
    const cJSON *v = ak_json_get(o, key);
    return v && ak_json_as_num(v, out, err) == 0 ? 0 : wrong(key, "a number", v, err);
}

double ak_json_number(const cJSON *o, const char *key) {
    double v;
    struct ak_err ignored;
    return o && ak_json_num(o, key, &v, &ignored) == 0 ? v : NAN;
}

const char *ak_json_string(const cJSON *o, const char *key, const char *otherwise) {
    const cJSON *v = o ? ak_json_get(o, key) : NULL;
    return cJSON_IsString(v) ? v->valuestring : otherwise;
}

int ak_json_bool(const cJSON *o, const char *key, bool *out, struct ak_err *err) {
    const cJSON *v = ak_json_get(o, key);
    if (!cJSON_IsBool(v)) return wrong(key, "true or false", v, err);
    *out = cJSON_IsTrue(v);
    return 0;
}

int ak_json_array(const cJSON *o, const char *key, const cJSON **out, struct ak_err *err) {
    *out = ak_json_get(o, key);
    return cJSON_IsArray(*out) ? 0 : wrong(key, "an array", *out, err);
}

int ak_json_object(const cJSON *o, const char *key, const cJSON **out, struct ak_err *err) {
    *out = ak_json_get(o, key);
    return cJSON_IsObject(*out) ? 0 : wrong(key, "an object", *out, err);
}

cJSON *ak_json_new_i64(int64_t v) {
    /* cJSON prints 15 digits where the 16th and 17th change less than DBL_EPSILON */
    if (v > -1000000000000000 && v < 1000000000000000) return cJSON_CreateNumber((double)v);
    char buf[32];
    snprintf(buf, sizeof buf, "%lld", (long long)v);
    return cJSON_CreateRaw(buf);
}

cJSON *ak_json_new_num(double v) {
    if (isnan(v)) return cJSON_CreateString("NaN");
    if (isinf(v)) return cJSON_CreateString(v > 0 ? "Infinity" : "-Infinity");
    return cJSON_CreateNumber(v);
}

void ak_json_add_i64(cJSON *o, const char *key, int64_t v) { cJSON_AddItemToObject(o, key, ak_json_new_i64(v)); }
void ak_json_add_num(cJSON *o, const char *key, double v) { cJSON_AddItemToObject(o, key, ak_json_new_num(v)); }

cJSON *ak_json_i64_array(const int64_t *v, size_t n) {
    cJSON *a = cJSON_CreateArray();
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(a, ak_json_new_i64(v[i]));
    return a;
}

static int print(FILE *f, char *text) {
    if (!text) ak_die(AK_EXIT_IO, "out of memory");
    int rc = fprintf(f, "%s\n", text) < 0 ? -1 : 0;
    cJSON_free(text);
    return rc;
}

int ak_json_print(FILE *f, const cJSON *v) { return print(f, cJSON_PrintUnformatted(v)); }
int ak_json_print_pretty(FILE *f, const cJSON *v) { return print(f, cJSON_Print(v)); }
