#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char *const role_names[] = {[AK_ROLE_ABSENT] = "absent",
                                         [AK_ROLE_INPUT] = "input",
                                         [AK_ROLE_CONSTANT] = "constant",
                                         [AK_ROLE_OUTPUT] = "output",
                                         [AK_ROLE_INOUT] = "inout"};
enum { ROLES = sizeof role_names / sizeof *role_names };

const char *ak_role_name(enum ak_role role) { return role_names[role]; }

int ak_role_from_name(const char *name) {
    for (int i = 0; i < ROLES; i++)
        if (strcmp(name, role_names[i]) == 0) return i;
    return -1;
}

void ak_tensor_to_json(cJSON *o, const struct ak_tensor *t) {
    cJSON_AddStringToObject(o, "dtype", ak_dtype_name(t->dtype));
    cJSON_AddItemToObject(o, "shape", ak_json_i64_array(t->shape, (size_t)t->ndim));
    cJSON_AddItemToObject(o, "stride", ak_json_i64_array(t->stride, (size_t)t->ndim));
    ak_json_add_i64(o, "offset", t->offset);
}

/* An empty list may come as {}, which is what Lua's empty table becomes. */
static bool is_list(const cJSON *v) { return cJSON_IsArray(v) || (cJSON_IsObject(v) && !v->child); }

static int read_dims(const cJSON *o, const char *key, int64_t *out, int *n, struct ak_err *err) {
    const cJSON *list = ak_json_get(o, key), *v;
    if (!is_list(list)) return ak_fail(err, AK_EXIT_INPUT, "field '%s' is not an array", key);
    *n = 0;
    cJSON_ArrayForEach(v, list) {
        if (*n == AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "field '%s' has more than %d dims", key, AK_MAX_DIMS);
        if (ak_json_as_i64(v, &out[*n], err)) return ak_fail_in(err, "field '%s'", key);
        ++*n;
    }
    return 0;
}

int ak_tensor_from_json(const cJSON *o, struct ak_tensor *t, struct ak_err *err) {
    const char *dtype;
    int64_t shape[AK_MAX_DIMS];
    int ndim, n;
    if (ak_json_str(o, "dtype", &dtype, err) || read_dims(o, "shape", shape, &ndim, err)) return -1;
    int d = ak_dtype_from_name(dtype);
    if (d < 0) return ak_fail(err, AK_EXIT_INPUT, "there is no dtype '%s'", dtype);
    *t = ak_tensor_new((enum ak_dtype)d, ndim, shape);
    if (ak_json_get(o, "stride")) {
        if (read_dims(o, "stride", t->stride, &n, err)) return -1;
        if (n != ndim) return ak_fail(err, AK_EXIT_INPUT, "%d strides for %d dims", n, ndim);
    }
    if (ak_json_get(o, "offset") && ak_json_i64(o, "offset", &t->offset, err)) return -1;
    return ak_extent(t) < 0 ? ak_fail(err, AK_EXIT_INPUT, "a shape, stride or offset is negative or too large") : 0;
}

/* ---- attributes ---- */

static const char *const attr_keys[] = {[AK_ATTR_INT] = "int",
                                        [AK_ATTR_REAL] = "real",
                                        [AK_ATTR_BOOL] = "bool",
                                        [AK_ATTR_INTS] = "ints",
                                        [AK_ATTR_ENUM] = "enum"};

static int read_ints(const cJSON *v, struct ak_arena *arena, struct ak_attr *a, struct ak_err *err) {
    const cJSON *e;
    int64_t *ints = ak_arena_alloc(arena, ((size_t)cJSON_GetArraySize(v) + 1) * sizeof *ints);
    if (!is_list(v)) return ak_fail(err, AK_EXIT_INPUT, "not an array");
    cJSON_ArrayForEach(e, v) if (ak_json_as_i64(e, &ints[a->n++], err)) return -1;
    a->v.ints = ints;
    return 0;
}

static int read_attr(const cJSON *o, struct ak_arena *arena, struct ak_attr *a, struct ak_err *err) {
    const cJSON *v = cJSON_IsObject(o) ? o->child : NULL;
    if (!v || v->next) return ak_fail(err, AK_EXIT_INPUT, "not one of {\"int\"}, {\"real\"}, {\"bool\"}, {\"ints\"}, {\"enum\"}");
    for (int i = AK_ATTR_INT; i <= AK_ATTR_ENUM; i++)
        if (strcmp(v->string, attr_keys[i]) == 0) a->type = i;
    switch (a->type) {
    case AK_ATTR_INT: return ak_json_as_i64(v, &a->v.i, err);
    case AK_ATTR_REAL: return ak_json_as_num(v, &a->v.f, err);
    case AK_ATTR_INTS: return read_ints(v, arena, a, err);
    case AK_ATTR_BOOL:
        if (!cJSON_IsBool(v)) return ak_fail(err, AK_EXIT_INPUT, "not true or false");
        a->v.i = cJSON_IsTrue(v);
        return 0;
    case AK_ATTR_ENUM:
        if (!cJSON_IsString(v)) return ak_fail(err, AK_EXIT_INPUT, "not a string");
        a->v.s = ak_arena_strdup(arena, v->valuestring);
        return 0;
    }
    return ak_fail(err, AK_EXIT_INPUT, "there is no attribute type '%s'", v->string);
}

int ak_attrs_from_json(const cJSON *o, struct ak_arena *arena, struct ak_attr **attrs, size_t *n, struct ak_err *err) {
    *n = 0;
    *attrs = ak_arena_alloc(arena, ((size_t)cJSON_GetArraySize(o) + 1) * sizeof **attrs);
    if (!o) return 0;
    if (!cJSON_IsObject(o) && o->child) return ak_fail(err, AK_EXIT_INPUT, "attrs is not an object");
    const cJSON *v;
    cJSON_ArrayForEach(v, o) {
        struct ak_attr *a = &(*attrs)[(*n)++];
        a->name = ak_arena_strdup(arena, v->string);
        if (read_attr(v, arena, a, err)) return ak_fail_in(err, "attribute '%s'", v->string);
    }
    return 0;
}

static cJSON *attr_value(const struct ak_attr *a) {
    switch (a->type) {
    case AK_ATTR_INT: return ak_json_new_i64(a->v.i);
    case AK_ATTR_REAL: return ak_json_new_num(a->v.f);
    case AK_ATTR_BOOL: return cJSON_CreateBool(a->v.i != 0);
    case AK_ATTR_INTS: return ak_json_i64_array(a->v.ints, (size_t)a->n);
    default: return cJSON_CreateString(a->v.s);
    }
}

cJSON *ak_attrs_to_json(const struct ak_attr *attrs, size_t n) {
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToObject(cJSON_AddObjectToObject(o, attrs[i].name), attr_keys[attrs[i].type], attr_value(&attrs[i]));
    return o;
}

/* ---- groups ---- */

static int find_node(const struct ak_graph *g, const char *name) {
    for (size_t i = 0; i < g->nnodes; i++)
        if (strcmp(g->nodes[i].name, name) == 0) return (int)i;
    return -1;
}

static int find_value(const struct ak_graph *g, const char *name) {
    for (size_t i = 0; i < g->nvalues; i++)
        if (strcmp(g->values[i].name, name) == 0) return (int)i;
    return -1;
}

int ak_value_root(const struct ak_graph *g, int v) {
    while (g->values[v].view_of)
        v = g->values[v].view_of - 1;
    return v;
}

int64_t ak_value_extent(const struct ak_graph *g, int v) {
    const struct ak_value *r = &g->values[ak_value_root(g, v)];
    bool stored = r->kind == AK_VALUE_FILE || r->kind == AK_VALUE_INLINE;
    return stored ? r->bytes / (int64_t)ak_dtype_size(r->t.dtype) : ak_extent(&r->t);
}

static int read_view(const cJSON *o, const struct ak_graph *g, struct ak_group_arg *arg, struct ak_err *err) {
    const char *value;
    if (ak_json_str(o, "value", &value, err)) return -1;
    arg->value = find_value(g, value);
    if (arg->value < 0) return ak_fail(err, AK_EXIT_INPUT, "the graph has no value '%s'", value);
    const struct ak_value *v = &g->values[arg->value];
    if (v->kind == AK_VALUE_INT) return ak_fail(err, AK_EXIT_INPUT, "value '%s' is an integer, not a tensor", value);
    if (!ak_json_get(o, "shape")) {
        arg->t = v->t;
        return 0;
    }
    cJSON *typed = cJSON_Duplicate(o, true);
    if (!ak_json_get(o, "dtype")) cJSON_AddStringToObject(typed, "dtype", ak_dtype_name(v->t.dtype));
    int rc = ak_tensor_from_json(typed, &arg->t, err);
    cJSON_Delete(typed);
    if (rc) return -1;
    if (arg->t.dtype != v->t.dtype)
        return ak_fail(err, AK_EXIT_INPUT, "value '%s' is %s, not %s", value, ak_dtype_name(v->t.dtype), ak_dtype_name(arg->t.dtype));
    if (ak_extent(&arg->t) > ak_value_extent(g, arg->value))
        return ak_fail(err, AK_EXIT_INPUT, "the view reaches past the storage of value '%s'", value);
    return 0;
}

static int read_arg(const cJSON *o, const struct ak_graph *g, struct ak_arena *arena, struct ak_group_arg *arg, struct ak_err *err) {
    const char *name, *role;
    if (ak_json_str(o, "name", &name, err) || ak_json_str(o, "role", &role, err)) return -1;
    arg->name = ak_arena_strdup(arena, name);
    arg->value = -1;
    int r = ak_role_from_name(role);
    if (r < 0) return ak_fail(err, AK_EXIT_INPUT, "argument '%s': there is no role '%s'", name, role);
    arg->role = (enum ak_role)r;
    if (arg->role == AK_ROLE_ABSENT) return 0;
    return read_view(o, g, arg, err) ? ak_fail_in(err, "argument '%s'", name) : 0;
}

static int read_group(struct ak_group *group, const struct ak_graph *g, const cJSON *o, struct ak_arena *arena, struct ak_err *err) {
    const char *type;
    const cJSON *nodes, *args, *v;
    if (ak_json_str(o, "type", &type, err) || ak_json_array(o, "nodes", &nodes, err) || ak_json_array(o, "args", &args, err))
        return -1;
    group->type = ak_arena_strdup(arena, type);
    const cJSON *spec = ak_json_get(o, "spec");
    if (cJSON_IsString(spec)) group->spec = ak_arena_strdup(arena, spec->valuestring);
    group->nodes = ak_arena_alloc(arena, ((size_t)cJSON_GetArraySize(nodes) + 1) * sizeof *group->nodes);
    cJSON_ArrayForEach(v, nodes) {
        if (!cJSON_IsString(v)) return ak_fail(err, AK_EXIT_INPUT, "a node's name is not a string");
        int n = find_node(g, v->valuestring);
        if (n < 0) return ak_fail(err, AK_EXIT_INPUT, "the graph has no node '%s'", v->valuestring);
        group->nodes[group->nnodes++] = n;
    }
    if (!group->nnodes) return ak_fail(err, AK_EXIT_INPUT, "it has no nodes");
    group->args = ak_arena_alloc(arena, ((size_t)cJSON_GetArraySize(args) + 1) * sizeof *group->args);
    cJSON_ArrayForEach(v, args) if (read_arg(v, g, arena, &group->args[group->nargs++], err)) return -1;
    return ak_attrs_from_json(ak_json_get(o, "attrs"), arena, &group->attrs, &group->nattrs, err);
}

int ak_group_from_json(struct ak_group *group, const struct ak_graph *g, const cJSON *o, struct ak_arena *arena, struct ak_err *err) {
    memset(group, 0, sizeof *group);
    if (read_group(group, g, o, arena, err) == 0) return 0;
    return group->type ? ak_fail_in(err, "group of type '%s'", group->type) : ak_fail_in(err, "group");
}

cJSON *ak_group_to_json(const struct ak_graph *g, const struct ak_group *group) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", group->type);
    if (group->spec) cJSON_AddStringToObject(o, "spec", group->spec);
    cJSON *nodes = cJSON_AddArrayToObject(o, "nodes");
    for (size_t i = 0; i < group->nnodes; i++)
        cJSON_AddItemToArray(nodes, cJSON_CreateString(g->nodes[group->nodes[i]].name));
    cJSON_AddItemToObject(o, "attrs", ak_attrs_to_json(group->attrs, group->nattrs));
    cJSON *args = cJSON_AddArrayToObject(o, "args");
    for (size_t i = 0; i < group->nargs; i++) {
        const struct ak_group_arg *a = &group->args[i];
        cJSON *arg = cJSON_CreateObject();
        cJSON_AddStringToObject(arg, "name", a->name);
        cJSON_AddStringToObject(arg, "role", ak_role_name(a->role));
        if (a->role != AK_ROLE_ABSENT) {
            cJSON_AddStringToObject(arg, "value", g->values[a->value].name);
            ak_tensor_to_json(arg, &a->t);
        }
        cJSON_AddItemToArray(args, arg);
    }
    return o;
}
