/* What model.json is made of: indices, descriptions of tensors, names in scope, and the unions of
 * arguments. Enumerations are the file's own; they are not c10's. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "pt2_read.h"

/* ---- indices ---- */

int pt2_index_init(struct pt2_index *x, const cJSON *o, const char *what, struct ak_err *err) {
    *x = (struct pt2_index){0};
    if (!cJSON_IsObject(o)) return ak_fail(err, AK_EXIT_INPUT, "%s is missing or no object", what);
    x->items = ak_malloc(((size_t)cJSON_GetArraySize(o) + 1) * sizeof *x->items);
    const cJSON *v;
    int n = 0;
    cJSON_ArrayForEach(v, o) {
        if (ak_names_add(&x->names, v->string, n)) return ak_fail(err, AK_EXIT_INPUT, "%s holds '%s' twice", what, v->string);
        x->items[n++] = v;
    }
    return 0;
}

const cJSON *pt2_index_get(const struct pt2_index *x, const char *key) {
    int i = ak_names_find(&x->names, key);
    return i < 0 ? NULL : x->items[i];
}

void pt2_index_release(struct pt2_index *x) {
    ak_names_release(&x->names);
    free(x->items);
    *x = (struct pt2_index){0};
}

/* ---- tensors' descriptions ---- */

static int read_dtype(int64_t code, enum ak_dtype *dtype, struct ak_err *err) {
    static const struct {
        int dtype;
        const char *name;
    } codes[] = {[1] = {AK_U8, 0},  [2] = {AK_I8, 0},        [3] = {AK_I16, 0},       [4] = {AK_I32, 0},   [5] = {AK_I64, 0},
                 [6] = {AK_F16, 0}, [7] = {AK_F32, 0},       [8] = {AK_F64, 0},       [9] = {-1, "complex32"}, [10] = {-1, "complex64"},
                 [11] = {-1, "complex128"}, [12] = {AK_BOOL, 0}, [13] = {AK_BF16, 0}, [28] = {-1, "uint16"}, [29] = {-1, "float8_e4m3fn"},
                 [30] = {-1, "float8_e5m2"}, [31] = {-1, "float8_e4m3fnuz"}, [32] = {-1, "float8_e5m2fnuz"}};
    if (code < 1 || code >= (int64_t)(sizeof codes / sizeof *codes) || (code > 13 && !codes[code].name))
        return ak_fail(err, AK_EXIT_INPUT, "unknown dtype code %lld", (long long)code);
    if (codes[code].name) return ak_fail(err, AK_EXIT_INPUT, "dtype %s is not supported", codes[code].name);
    *dtype = (enum ak_dtype)codes[code].dtype;
    return 0;
}

/* SymInt: {"as_int": n}, or an expression with the value it had while exporting. */
int pt2_sym_int(const cJSON *o, int64_t *value, const char **expr, struct ak_err *err) {
    const cJSON *e = ak_json_get(o, "as_expr"), *hint;
    *expr = NULL;
    *value = -1;
    if (!e) return ak_json_i64(o, "as_int", value, err);
    if (ak_json_str(e, "expr_str", expr, err)) return -1;
    hint = ak_json_get(e, "hint");
    return !hint || cJSON_IsNull(hint) ? 0 : ak_json_i64(hint, "as_int", value, err);
}

static int read_sizes(const cJSON *o, const char *key, int64_t *out, const char **sym, int *n, struct ak_err *err) {
    const cJSON *list, *v;
    if (ak_json_array(o, key, &list, err)) return -1;
    *n = 0;
    cJSON_ArrayForEach(v, list) {
        if (*n == AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "a tensor has more than %d dimensions", AK_MAX_DIMS);
        const char *expr;
        if (pt2_sym_int(v, &out[*n], &expr, err)) return ak_fail_in(err, "field '%s'", key);
        if (sym) sym[*n] = expr;
        if (out[*n] < 0 && !expr) return ak_fail(err, AK_EXIT_INPUT, "field '%s' holds a negative number", key);
        ++*n;
    }
    return 0;
}

int pt2_meta_read(const cJSON *o, struct pt2_meta *m, struct ak_err *err) {
    int64_t code, layout, shape[AK_MAX_DIMS], stride[AK_MAX_DIMS];
    int n, nstrides;
    const char *expr;
    *m = (struct pt2_meta){.known = true};
    enum ak_dtype dtype;
    if (ak_json_i64(o, "dtype", &code, err) || read_dtype(code, &dtype, err) || ak_json_i64(o, "layout", &layout, err)) return -1;
    if (layout != 7) return ak_fail(err, AK_EXIT_INPUT, "layout code %lld is not supported (only strided tensors are)", (long long)layout);
    if (read_sizes(o, "sizes", shape, m->sym, &n, err) || read_sizes(o, "strides", stride, NULL, &nstrides, err)) return -1;
    if (n != nstrides) return ak_fail(err, AK_EXIT_INPUT, "%d strides for %d dimensions", nstrides, n);
    m->t = (struct ak_tensor){.dtype = dtype, .ndim = n};
    for (int i = 0; i < n; i++) {
        m->t.shape[i] = shape[i];
        m->t.stride[i] = stride[i];
        m->known &= shape[i] >= 0 && stride[i] >= 0;
    }
    if (pt2_sym_int(ak_json_get(o, "storage_offset"), &m->t.offset, &expr, err)) return ak_fail_in(err, "field 'storage_offset'");
    if (m->t.offset < 0 && !expr) return ak_fail(err, AK_EXIT_INPUT, "field 'storage_offset' is negative");
    m->known &= m->t.offset >= 0;
    if (m->known && ak_extent(&m->t) < 0) return ak_fail(err, AK_EXIT_INPUT, "a shape, stride or offset is negative or too large");
    return 0;
}

/* ---- scopes ---- */

int pt2_scope_init(struct pt2_scope *s, struct ak_graph *g, const cJSON *graph, const char *prefix, struct ak_names *node_names,
                   struct ak_err *err) {
    *s = (struct pt2_scope){.g = g, .prefix = prefix, .node_names = node_names, .err = err, .sym_ints = ak_json_get(graph, "sym_int_values")};
    return pt2_index_init(&s->tensors, ak_json_get(graph, "tensor_values"), "field 'tensor_values'", err);
}

void pt2_scope_release(struct pt2_scope *s) {
    ak_names_release(&s->values);
    pt2_index_release(&s->tensors);
}

int pt2_scope_add(struct pt2_scope *s, const char *name, int id) {
    return ak_names_add(&s->values, name, id) ? ak_fail(s->err, AK_EXIT_INPUT, "two values are called '%s'", name) : 0;
}

int pt2_scope_find(const struct pt2_scope *s, const char *name, int *id) {
    *id = ak_names_find(&s->values, name);
    return *id < 0 ? ak_fail(s->err, AK_EXIT_INPUT, "'%s' is read before anything has made it", name) : 0;
}

/* ---- arguments ---- */

int pt2_find_named(const struct pt2_scope *s, const cJSON *o, int *id) {
    const char *name;
    return ak_json_str(o, "name", &name, s->err) || pt2_scope_find(s, name, id) ? -1 : 0;
}

static int *one_id(struct pt2_scope *s, struct ak_garg *a) {
    a->kind = AK_GARG_VALUE;
    a->n = 1;
    return a->ids = ak_arena_alloc(&s->g->arena, sizeof *a->ids);
}

static int arg_tensor(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) { return pt2_find_named(s, v, one_id(s, a)); }

static int arg_tensors(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    a->kind = AK_GARG_VALUES;
    a->ids = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *a->ids);
    cJSON_ArrayForEach(v, list) if (pt2_find_named(s, v, &a->ids[a->n++])) return -1;
    return 0;
}

static int arg_optional_tensors(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    a->kind = AK_GARG_VALUES;
    a->ids = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *a->ids);
    cJSON_ArrayForEach(v, list) {
        const cJSON *t = ak_json_get(v, "as_tensor");
        a->ids[a->n] = -1;
        if (!t && !ak_json_get(v, "as_none")) return ak_fail(s->err, AK_EXIT_INPUT, "an entry is neither as_tensor nor as_none");
        if (t && pt2_find_named(s, t, &a->ids[a->n])) return -1;
        a->n++;
    }
    return 0;
}

static int arg_optional_tensor(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    const cJSON *t = ak_json_get(v, "as_tensor");
    return t ? arg_tensor(s, t, a) : 0;
}

static int arg_none(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    (void)s, (void)v, (void)a;
    return 0;
}

static int arg_int(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    a->val.kind = AK_VAL_INT;
    return ak_json_as_i64(v, &a->val.i, s->err);
}

static int arg_float(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    a->val.kind = AK_VAL_FLOAT;
    return ak_json_as_num(v, &a->val.f, s->err);
}

static int arg_bool(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    if (!cJSON_IsBool(v)) return ak_fail(s->err, AK_EXIT_INPUT, "not true or false");
    a->val = (struct ak_val){.kind = AK_VAL_BOOL, .i = cJSON_IsTrue(v)};
    return 0;
}

static int arg_string(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    if (!cJSON_IsString(v)) return ak_fail(s->err, AK_EXIT_INPUT, "not a string");
    a->val = (struct ak_val){.kind = AK_VAL_STR, .s = ak_arena_strdup(&s->g->arena, v->valuestring)};
    return 0;
}

static int arg_ints(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    size_t n = 0;
    int64_t *out = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *out);
    cJSON_ArrayForEach(v, list) {
        if (cJSON_IsBool(v))
            out[n++] = cJSON_IsTrue(v);
        else if (ak_json_as_i64(v, &out[n++], s->err))
            return -1;
    }
    a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {out, n}};
    return 0;
}

static int arg_floats(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    size_t n = 0;
    double *out = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *out);
    cJSON_ArrayForEach(v, list) if (ak_json_as_num(v, &out[n++], s->err)) return -1;
    a->val = (struct ak_val){.kind = AK_VAL_FLOATS, .floats = {out, n}};
    return 0;
}

/* {"as_name": value} or {"as_int": n}, {"as_float": x}, {"as_bool": b} */
static int arg_sym(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    const cJSON *name = ak_json_get(v, "as_name"), *x;
    if (cJSON_IsString(name)) return pt2_scope_find(s, name->valuestring, one_id(s, a));
    if ((x = ak_json_get(v, "as_int"))) return arg_int(s, x, a);
    if ((x = ak_json_get(v, "as_float"))) return arg_float(s, x, a);
    if ((x = ak_json_get(v, "as_bool"))) return arg_bool(s, x, a);
    return ak_fail(s->err, AK_EXIT_INPUT, "a symbolic number is neither a name nor a number");
}

static int arg_sym_ints(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    int64_t *out = ak_arena_alloc(&s->g->arena, (n + 1) * sizeof *out);
    a->ids = ak_arena_alloc(&s->g->arena, (n + 1) * sizeof *a->ids);
    a->n = n;
    a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {out, n}};
    cJSON_ArrayForEach(v, list) {
        const cJSON *name = ak_json_get(v, "as_name");
        a->ids[i] = -1;
        if (cJSON_IsString(name)) {
            if (pt2_scope_find(s, name->valuestring, &a->ids[i])) return -1;
            if (s->g->values[a->ids[i]].kind != AK_VALUE_INT) return ak_fail(s->err, AK_EXIT_INPUT, "'%s' is no integer", name->valuestring);
            a->kind = AK_GARG_SYMINTS;
        } else if (ak_json_i64(v, "as_int", &out[i], s->err)) {
            return -1;
        }
        i++;
    }
    return 0;
}

static int arg_scalar_type(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    int64_t code;
    enum ak_dtype dtype;
    if (ak_json_as_i64(v, &code, s->err) || read_dtype(code, &dtype, s->err)) return -1;
    a->val = (struct ak_val){.kind = AK_VAL_INT, .i = dtype};
    return 0;
}

/* Memory formats get the numbers that schemas' defaults have: contiguous 0, preserve 1, channels_last 2 and 3. */
static int arg_memory_format(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    static const int c10[] = {-1, 0, 2, 3, 1};
    int64_t code;
    if (ak_json_as_i64(v, &code, s->err)) return -1;
    if (code < 1 || code > 4) return ak_fail(s->err, AK_EXIT_INPUT, "unknown memory format code %lld", (long long)code);
    a->val = (struct ak_val){.kind = AK_VAL_INT, .i = c10[code]};
    return 0;
}

static int arg_layout(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    int64_t code;
    if (ak_json_as_i64(v, &code, s->err)) return -1;
    if (code != 7) return ak_fail(s->err, AK_EXIT_INPUT, "layout code %lld is not supported (only strided tensors are)", (long long)code);
    a->val = (struct ak_val){.kind = AK_VAL_INT, .i = 0};
    return 0;
}

/* Where the exporter ran does not matter here. */
static int arg_device(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    (void)s, (void)v;
    a->val = (struct ak_val){.kind = AK_VAL_STR, .s = "cpu"};
    return 0;
}

static const struct {
    const char *key;
    int (*read)(struct pt2_scope *s, const cJSON *v, struct ak_garg *a);
    bool list;
} unions[] = {{"as_tensor", arg_tensor, false},
              {"as_int", arg_int, false},
              {"as_ints", arg_ints, true},
              {"as_float", arg_float, false},
              {"as_bool", arg_bool, false},
              {"as_none", arg_none, false},
              {"as_tensors", arg_tensors, true},
              {"as_scalar_type", arg_scalar_type, false},
              {"as_device", arg_device, false},
              {"as_layout", arg_layout, false},
              {"as_memory_format", arg_memory_format, false},
              {"as_string", arg_string, false},
              {"as_sym_int", arg_sym, false},
              {"as_sym_ints", arg_sym_ints, true},
              {"as_sym_float", arg_sym, false},
              {"as_sym_bool", arg_sym, false},
              {"as_floats", arg_floats, true},
              {"as_bools", arg_ints, true},
              {"as_optional_tensor", arg_optional_tensor, false},
              {"as_optional_tensors", arg_optional_tensors, true}};

static int read_union(struct pt2_scope *s, const cJSON *o, struct ak_garg *a) {
    *a = (struct ak_garg){0};
    if (!cJSON_IsObject(o) || !o->child || o->child->next) return ak_fail(s->err, AK_EXIT_INPUT, "it is not an object of one key");
    for (size_t i = 0; i < sizeof unions / sizeof *unions; i++) {
        if (strcmp(o->child->string, unions[i].key)) continue;
        if (unions[i].list && !cJSON_IsArray(o->child)) return ak_fail(s->err, AK_EXIT_INPUT, "'%s' is no array", unions[i].key);
        return unions[i].read(s, o->child, a);
    }
    return ak_fail(s->err, AK_EXIT_INPUT, "kind '%s' is not supported", o->child->string);
}

static bool is_list(const char *type) { return strchr(type, '[') != NULL; }

/* Numbers and lists as the schema has them: float takes 1, int[2] takes 3. */
static void fit(struct pt2_scope *s, struct ak_garg *a, const struct ak_op_arg *spec) {
    if (a->kind != AK_GARG_CONST) return;
    if (a->val.kind == AK_VAL_INT && strncmp(spec->type, "float", 5) == 0 && !is_list(spec->type))
        a->val = (struct ak_val){.kind = AK_VAL_FLOAT, .f = (double)a->val.i};
    if (a->val.kind == AK_VAL_INT && strncmp(spec->type, "int[", 4) == 0) {
        int64_t *v = ak_arena_alloc(&s->g->arena, sizeof *v);
        *v = a->val.i;
        a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {v, 1}};
    }
    if (a->val.kind == AK_VAL_INTS && a->val.ints.n == 0 && strncmp(spec->type, "float[", 6) == 0)
        a->val = (struct ak_val){.kind = AK_VAL_FLOATS};
}

int pt2_arg_read(struct pt2_scope *s, const cJSON *o, const struct ak_op_arg *spec, struct ak_garg *a) {
    if (read_union(s, o, a)) return ak_fail_in(s->err, "argument '%s'", spec->name);
    fit(s, a, spec);
    return 0;
}
