/* Every node is inferred as it is added, so that a mistake is reported with the line that made it. */
#include "builder.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lua_host.h"
#include "mem.h"
#include "rand.h"

struct builder {
    struct ak_graph *g;
    enum ak_dtype dtype; /* of weights that name none */
    char *origin;
};

static const char value_meta[] = "ak.value", builder_meta[] = "ak.builder";

struct value {
    struct builder *b;
    int id;
};

static int raise(lua_State *L, const struct ak_err *err) {
    luaL_where(L, 1);
    lua_pushstring(L, err->msg);
    lua_concat(L, 2);
    return lua_error(L);
}

static struct builder *self(lua_State *L) { return *(struct builder **)luaL_checkudata(L, 1, builder_meta); }

static void push_value(lua_State *L, struct builder *b, int id) {
    struct value *v = lua_newuserdatauv(L, sizeof *v, 0);
    *v = (struct value){b, id};
    luaL_setmetatable(L, value_meta);
}

static int value_index(lua_State *L) {
    struct value *v = luaL_checkudata(L, 1, value_meta);
    const char *key = luaL_checkstring(L, 2);
    const struct ak_value *g = &v->b->g->values[v->id];
    if (strcmp(key, "shape") == 0) {
        lua_createtable(L, g->t.ndim, 0);
        for (int i = 0; i < g->t.ndim; i++) {
            lua_pushinteger(L, g->t.shape[i]);
            lua_rawseti(L, -2, i + 1);
        }
    } else if (strcmp(key, "dtype") == 0) {
        lua_pushstring(L, ak_dtype_name(g->t.dtype));
    } else if (strcmp(key, "ndim") == 0) {
        lua_pushinteger(L, g->t.ndim);
    } else if (strcmp(key, "name") == 0) {
        lua_pushstring(L, g->name);
    } else {
        return luaL_error(L, "a value has no '%s'; it has shape, dtype, ndim and name", key);
    }
    return 1;
}

static enum ak_dtype check_dtype(lua_State *L, int at) {
    int d = ak_dtype_from_name(luaL_checkstring(L, at));
    if (d < 0) luaL_error(L, "unknown dtype '%s'", lua_tostring(L, at));
    return (enum ak_dtype)d;
}

static struct ak_tensor check_shape(lua_State *L, int at, enum ak_dtype dtype) {
    int64_t shape[AK_MAX_DIMS];
    luaL_checktype(L, at, LUA_TTABLE);
    lua_Unsigned n = lua_rawlen(L, at);
    if (n > AK_MAX_DIMS) luaL_error(L, "a shape has at most %d dims", AK_MAX_DIMS);
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        shape[i] = luaL_checkinteger(L, -1);
        if (shape[i] < 0) luaL_error(L, "a dim is negative");
        lua_pop(L, 1);
    }
    struct ak_tensor t = ak_tensor_new(dtype, (int)n, shape);
    if (ak_extent(&t) < 0) luaL_error(L, "a shape is too large");
    return t;
}

static void append(struct ak_graph *g, int **list, size_t *n, int id) {
    int *longer = ak_arena_alloc(&g->arena, (*n + 1) * sizeof *longer);
    if (*n) memcpy(longer, *list, *n * sizeof *longer);
    longer[(*n)++] = id;
    *list = longer;
}

static lua_Number number_field(lua_State *L, int at, const char *key, lua_Number otherwise) {
    if (!lua_istable(L, at)) return otherwise;
    if (lua_getfield(L, at, key) != LUA_TNIL) otherwise = luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return otherwise;
}

/* g:input(name, dtype, shape [, {lo, hi}]) */
static int builder_input(lua_State *L) {
    struct builder *b = self(L);
    const char *name = luaL_checkstring(L, 2);
    int id = ak_graph_add_value(b->g, name, AK_VALUE_INPUT, check_shape(L, 4, check_dtype(L, 3)));
    b->g->values[id].lo = (int64_t)number_field(L, 5, "lo", 0);
    b->g->values[id].hi = (int64_t)number_field(L, 5, "hi", 2);
    append(b->g, &b->g->inputs, &b->g->ninputs, id);
    push_value(L, b, id);
    return 1;
}

/* g:weight(name, shape [, {dtype, mean, std}]) */
static int builder_weight(lua_State *L) {
    struct builder *b = self(L);
    const char *name = luaL_checkstring(L, 2);
    enum ak_dtype dtype = b->dtype;
    if (lua_istable(L, 4)) {
        if (lua_getfield(L, 4, "dtype") != LUA_TNIL) dtype = check_dtype(L, -1);
        lua_pop(L, 1);
    }
    int id = ak_graph_add_value(b->g, name, AK_VALUE_RANDOM, check_shape(L, 3, dtype));
    struct ak_value *v = &b->g->values[id];
    v->mean = number_field(L, 4, "mean", 0);
    v->std = number_field(L, 4, "std", 0.02);
    /* 53 bits: a seed that JSON numbers hold exactly */
    v->seed = ak_rand_seed(0, name) >> 11;
    push_value(L, b, id);
    return 1;
}

static int builder_output(lua_State *L) {
    struct builder *b = self(L);
    for (int i = 2; i <= lua_gettop(L); i++) {
        struct value *v = luaL_checkudata(L, i, value_meta);
        append(b->g, &b->g->outputs, &b->g->noutputs, v->id);
    }
    return 0;
}

/* ---- g:op ---- */

static struct ak_garg value_arg(struct ak_graph *g, int id) {
    int *ids = ak_arena_alloc(&g->arena, sizeof *ids);
    *ids = id;
    return (struct ak_garg){.kind = AK_GARG_VALUE, .ids = ids, .n = 1};
}

static struct ak_garg constant(struct ak_val v) { return (struct ak_garg){.kind = AK_GARG_CONST, .val = v}; }

static struct ak_garg number_arg(lua_State *L, int at) {
    if (lua_isinteger(L, at)) return constant((struct ak_val){.kind = AK_VAL_INT, .i = lua_tointeger(L, at)});
    return constant((struct ak_val){.kind = AK_VAL_FLOAT, .f = luaL_checknumber(L, at)});
}

static struct ak_garg tensors_arg(lua_State *L, struct builder *b, int at) {
    luaL_checktype(L, at, LUA_TTABLE);
    size_t n = lua_rawlen(L, at);
    struct ak_garg a = {.kind = AK_GARG_VALUES, .ids = ak_arena_alloc(&b->g->arena, (n + 1) * sizeof(int)), .n = n};
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        a.ids[i] = lua_toboolean(L, -1) ? ((struct value *)luaL_checkudata(L, -1, value_meta))->id : -1; /* false: an absent entry */
        lua_pop(L, 1);
    }
    return a;
}

static struct ak_garg ints_arg(lua_State *L, struct builder *b, int at) {
    size_t n = lua_istable(L, at) ? lua_rawlen(L, at) : 1;
    int64_t *v = ak_arena_alloc(&b->g->arena, (n + 1) * sizeof *v);
    if (!lua_istable(L, at)) v[0] = luaL_checkinteger(L, at);
    for (size_t i = 0; lua_istable(L, at) && i < n; i++) {
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        v[i] = luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    return constant((struct ak_val){.kind = AK_VAL_INTS, .ints = {v, n}});
}

static bool starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* The value on top of the stack as an argument of that schema type. */
static struct ak_garg argument(lua_State *L, struct builder *b, const char *type) {
    int at = lua_gettop(L);
    if (starts(type, "Tensor[") || starts(type, "Tensor?[")) return tensors_arg(L, b, at);
    if (starts(type, "Tensor")) {
        struct value *v = luaL_testudata(L, at, value_meta);
        return v ? value_arg(b->g, v->id) : number_arg(L, at);
    }
    if (starts(type, "int[")) return ints_arg(L, b, at);
    if (starts(type, "ScalarType")) return constant((struct ak_val){.kind = AK_VAL_INT, .i = check_dtype(L, at)});
    if (starts(type, "float")) return constant((struct ak_val){.kind = AK_VAL_FLOAT, .f = luaL_checknumber(L, at)});
    if (starts(type, "bool") || lua_isboolean(L, at)) return constant((struct ak_val){.kind = AK_VAL_BOOL, .i = lua_toboolean(L, at)});
    if (starts(type, "str")) return constant((struct ak_val){.kind = AK_VAL_STR, .s = ak_arena_strdup(&b->g->arena, luaL_checkstring(L, at))});
    return number_arg(L, at);
}

static void check_names(lua_State *L, const struct ak_op *op, int at) {
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && ak_op_arg_index(op, lua_tostring(L, -2)) < 0)
            luaL_error(L, "%s has no argument '%s'", op->name, lua_tostring(L, -2));
}

/* "linear", "linear_1", ...: the op's name, numbered, as torch.export names nodes. */
static char *node_name(lua_State *L, const struct ak_op *op) {
    const char *base = op->name + (starts(op->name, "aten.") ? 5 : 0), *dot = strchr(base, '.');
    int len = dot ? (int)(dot - base) : (int)strlen(base);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "node names");
    lua_pushlstring(L, base, (size_t)len);
    lua_pushvalue(L, -1);
    lua_Integer n = lua_rawget(L, -3) == LUA_TNIL ? 0 : lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_pushinteger(L, n + 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return n ? ak_asprintf("%.*s_%lld", len, base, (long long)n) : ak_asprintf("%.*s", len, base);
}

static int builder_op(lua_State *L) {
    struct builder *b = self(L);
    const char *name = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    const struct ak_op *op = ak_op_find(name);
    char near[256];
    if (!op) return luaL_error(L, "unknown op '%s'; there are: %s", name, ak_op_near(name, near, sizeof near));
    check_names(L, op, 3);
    char *label = node_name(L, op);
    int n = ak_graph_add_node(b->g, op, label);
    free(label);
    b->g->nodes[n].origin = ak_arena_strdup(&b->g->arena, b->origin);
    for (size_t i = 0; i < op->nargs; i++) {
        if (lua_rawgeti(L, 3, (lua_Integer)i + 1) == LUA_TNIL) {
            lua_pop(L, 1);
            lua_getfield(L, 3, op->args[i].name);
        }
        if (!lua_isnil(L, -1))
            b->g->nodes[n].args[i] = argument(L, b, op->args[i].type);
        else if (!op->args[i].has_default && !op->args[i].optional)
            luaL_error(L, "%s wants its argument '%s'", op->name, op->args[i].name);
        lua_pop(L, 1);
    }
    struct ak_err err = {0};
    if (ak_graph_infer(b->g, n, &err)) return raise(L, &err);
    size_t outs = b->g->nodes[n].nouts;
    luaL_checkstack(L, (int)outs, "too many outputs");
    for (size_t i = 0; i < outs; i++)
        push_value(L, b, b->g->nodes[n].outs[i]);
    return (int)outs;
}

static int builder_set(lua_State *L) {
    struct builder *b = self(L);
    if (strcmp(luaL_checkstring(L, 2), "origin")) return luaL_error(L, "only g.origin can be set");
    const char *s = luaL_checkstring(L, 3);
    free(b->origin);
    b->origin = ak_strdup(s);
    return 0;
}

static int push_builder(lua_State *L) {
    static const luaL_Reg methods[] = {{"input", builder_input}, {"weight", builder_weight}, {"op", builder_op}, {"output", builder_output}, {NULL, NULL}};
    struct builder *b = lua_touserdata(L, 1);
    if (luaL_newmetatable(L, value_meta)) {
        lua_pushcfunction(L, value_index);
        lua_setfield(L, -2, "__index");
    }
    if (luaL_newmetatable(L, builder_meta)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, builder_set);
        lua_setfield(L, -2, "__newindex");
    }
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "node names");
    *(struct builder **)lua_newuserdatauv(L, sizeof b, 0) = b;
    luaL_setmetatable(L, builder_meta);
    return 1;
}

static int build(struct ak_rules *r, const char *fn, const cJSON *arg, enum ak_dtype dtype, struct ak_graph *g, struct ak_err *err) {
    struct builder b = {.g = g, .dtype = dtype, .origin = ak_strdup("")};
    int rc = ak_rules_run(r, fn, push_builder, &b, arg, err);
    free(b.origin);
    if (rc == 0 && !g->noutputs) rc = ak_fail(err, AK_EXIT_INPUT, "the graph has no output: g:output(...) was not called");
    return rc;
}

int ak_build_graph(struct ak_rules *r, const char *fn, const cJSON *arg, struct ak_graph *g, struct ak_err *err) {
    const cJSON *d = ak_json_get(arg, "dtype");
    int dtype = cJSON_IsString(d) ? ak_dtype_from_name(d->valuestring) : AK_F32;
    if (dtype < 0) return ak_fail(err, AK_EXIT_INPUT, "unknown dtype '%s'", d->valuestring);
    return build(r, fn, arg, (enum ak_dtype)dtype, g, err);
}

/* ---- models ---- */

/* "1,128" or "1x128" as a JSON array. */
static cJSON *parse_shape(const char *text, struct ak_err *err) {
    cJSON *a = cJSON_CreateArray();
    for (const char *s = text;;) {
        char *end;
        long long v = strtoll(s, &end, 10);
        if (end == s || v < 1 || v > INT32_MAX || (*end && *end != ',' && *end != 'x') || cJSON_GetArraySize(a) == AK_MAX_DIMS) break;
        cJSON_AddItemToArray(a, ak_json_new_i64(v));
        if (!*end) return a;
        s = end + 1;
    }
    cJSON_Delete(a);
    ak_fail(err, AK_EXIT_USAGE, "'%s' is not a shape such as 1,128", text);
    return NULL;
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

int ak_model_lua(struct ak_graph *g, const char *path, const char *input, const char *dtype, const char *device, struct ak_err *err) {
    struct ak_rules *r = ak_rules_open(path, err);
    if (!r) return -1;
    int rc = -1;
    cJSON *opt = cJSON_CreateObject(), *name = ak_rules_field(r, "name", err);
    cJSON *shape = input ? parse_shape(input, err) : own(r, "inputs", device, path, err);
    cJSON *d = dtype ? cJSON_CreateString(dtype) : own(r, "dtype", device, path, err);
    if (shape) cJSON_AddItemToObject(opt, "shape", shape);
    if (d) cJSON_AddItemToObject(opt, "dtype", d);
    cJSON_AddStringToObject(opt, "device", device);
    if (!shape || !d || !name) goto out;
    if (!cJSON_IsString(name) || !cJSON_IsString(d)) {
        ak_fail(err, AK_EXIT_INPUT, "%s: name and dtype are strings", path);
        goto out;
    }
    g->name = ak_arena_strdup(&g->arena, name->valuestring);
    g->source = ak_arena_strdup(&g->arena, path);
    rc = ak_build_graph(r, "build", opt, g, err);
out:
    cJSON_Delete(opt);
    cJSON_Delete(name);
    ak_rules_close(r);
    return rc;
}
