/* Every node is inferred as it is added, so that a mistake is reported with the line that made it.
 * After a mistake nothing more can be added, whether or not a pcall has seen it; after the build
 * nothing that Lua kept of it works any more. */
#include "builder.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lua_host.h"
#include "mem.h"
#include "rand.h"

enum {
    MOST_VALUES = 1 << 16, /* Lua's memory limit does not see the graph's */
    MOST_NAME = 200,
    MOST_LIST = 4096 /* entries of an argument */
};

struct builder { /* uservalue 1: the origin; 2: the names taken, name -> how many came of it */
    struct ak_graph *g; /* NULL once the build has ended */
    enum ak_dtype dtype; /* of weights that name none */
    bool busy;           /* within a call; after it: the call failed */
};

struct value { /* uservalue 1: its builder, kept alive */
    struct builder *b;
    int id;
};

static const char value_meta[] = "ak.value", builder_meta[] = "ak.builder";

/* The builder of a method call, which is its first argument. */
static struct builder *begin(lua_State *L) {
    struct builder *b = luaL_checkudata(L, 1, builder_meta);
    if (!b->g) luaL_error(L, "this graph is finished");
    if (b->busy) luaL_error(L, "an earlier call on this graph failed");
    if (b->g->nvalues >= MOST_VALUES || b->g->nnodes >= MOST_VALUES) luaL_error(L, "more than %d values", MOST_VALUES);
    b->busy = true;
    return b;
}

static void push_value(lua_State *L, struct builder *b, int id) {
    struct value *v = lua_newuserdatauv(L, sizeof *v, 1);
    *v = (struct value){b, id};
    luaL_setmetatable(L, value_meta);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
}

/* The id of a value of this graph, or -1 for anything else. */
static int value_id(lua_State *L, const struct builder *b, int at) {
    struct value *v = luaL_testudata(L, at, value_meta);
    if (v && v->b != b) luaL_error(L, "a value of another graph");
    return v ? v->id : -1;
}

static int value_index(lua_State *L) {
    struct value *v = luaL_checkudata(L, 1, value_meta);
    const char *key = luaL_checkstring(L, 2);
    if (!v->b->g) return luaL_error(L, "this graph is finished");
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

/* ---- names ---- */

/* Pushes the table of names taken and the name; says whether it is taken. */
static bool look_up(lua_State *L, const char *name, size_t len) {
    lua_getiuservalue(L, 1, 2);
    lua_pushlstring(L, name, len);
    lua_pushvalue(L, -1);
    bool taken = lua_rawget(L, -3) != LUA_TNIL;
    lua_pop(L, 1);
    return taken;
}

static void take(lua_State *L, const char *name) {
    if (look_up(L, name, strlen(name))) luaL_error(L, "there is a '%s' already", name);
    lua_pushinteger(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static const char *check_name(lua_State *L, int at) {
    size_t len;
    const char *name = luaL_checklstring(L, at, &len);
    if (!len || len > MOST_NAME || len != strlen(name)) luaL_error(L, "a name has 1 to %d characters", MOST_NAME);
    take(L, name);
    return name;
}

/* "linear", "linear_1", ...: the op's name, numbered, as torch.export names nodes. */
static const char *push_node_name(lua_State *L, const struct ak_op *op) {
    const char *base = strchr(op->name, '.');
    base = base ? base + 1 : op->name;
    size_t len = strcspn(base, ".");
    if (!look_up(L, base, len)) {
        lua_pushvalue(L, -1);
        lua_pushinteger(L, 1);
        lua_rawset(L, -4);
        return lua_tostring(L, -1);
    }
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    for (lua_Integer n = lua_tointeger(L, -1);; n++) {
        const char *name = lua_pushfstring(L, "%s_%I", lua_tostring(L, -2), n);
        if (!look_up(L, name, strlen(name))) {
            lua_pushinteger(L, 1);
            lua_rawset(L, -3);
            lua_pop(L, 1);
            lua_pushvalue(L, -3); /* the names: table, base, count, name */
            lua_pushinteger(L, n + 1);
            lua_rawset(L, -6);
            return name;
        }
        lua_pop(L, 3);
    }
}

/* ---- what tables say ---- */

static enum ak_dtype check_dtype(lua_State *L, int at) {
    if (lua_type(L, at) != LUA_TSTRING) luaL_error(L, "a dtype is a name such as f32, not a %s", luaL_typename(L, at));
    int d = ak_dtype_from_name(lua_tostring(L, at));
    if (d < 0) luaL_error(L, "unknown dtype '%s'", lua_tostring(L, at));
    return (enum ak_dtype)d;
}

static struct ak_tensor check_shape(lua_State *L, int at, enum ak_dtype dtype, const char *name) {
    int64_t shape[AK_MAX_DIMS];
    if (!lua_istable(L, at)) luaL_error(L, "the shape of '%s' is a %s, not a list", name, luaL_typename(L, at));
    lua_Unsigned n = lua_rawlen(L, at);
    if (n > AK_MAX_DIMS) luaL_error(L, "the shape of '%s' has more than %d dims", name, AK_MAX_DIMS);
    for (lua_Unsigned i = 0; i < n; i++) {
        int is;
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        shape[i] = lua_tointegerx(L, -1, &is);
        if (!is || shape[i] < 0) luaL_error(L, "dim %d of the shape of '%s' is %s", (int)i + 1, name, luaL_tolstring(L, -1, NULL));
        lua_pop(L, 1);
    }
    struct ak_tensor t = ak_tensor_new(dtype, (int)n, shape);
    if (ak_extent(&t) < 0) luaL_error(L, "the shape of '%s' is too large", name);
    return t;
}

static void check_options(lua_State *L, int at, const char *const *known) {
    if (lua_isnoneornil(L, at)) return;
    luaL_checktype(L, at, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
        const char *const *k = known;
        while (*k && (lua_type(L, -2) != LUA_TSTRING || strcmp(*k, lua_tostring(L, -2))))
            k++;
        if (!*k) luaL_error(L, "unknown option '%s'", luaL_tolstring(L, -2, NULL));
    }
}

/* Pushes the option, or nil. */
static bool option(lua_State *L, int at, const char *key) {
    if (lua_istable(L, at)) return lua_getfield(L, at, key) != LUA_TNIL;
    lua_pushnil(L);
    return false;
}

static double number_option(lua_State *L, int at, const char *key, double otherwise) {
    if (option(L, at, key)) {
        if (lua_type(L, -1) != LUA_TNUMBER || !isfinite(lua_tonumber(L, -1))) luaL_error(L, "option '%s' is not a number", key);
        otherwise = lua_tonumber(L, -1);
    }
    lua_pop(L, 1);
    return otherwise;
}

static int64_t int_option(lua_State *L, int at, const char *key, int64_t otherwise) {
    if (option(L, at, key)) {
        if (!lua_isinteger(L, -1)) luaL_error(L, "option '%s' is not an integer", key);
        otherwise = lua_tointeger(L, -1);
    }
    lua_pop(L, 1);
    return otherwise;
}

/* The list doubles when its length is a power of two. */
static void append(struct ak_graph *g, int **list, size_t *n, int id) {
    if ((*n & (*n - 1)) == 0) {
        int *longer = ak_arena_alloc(&g->arena, (*n ? 2 * *n : 1) * sizeof *longer);
        if (*n) memcpy(longer, *list, *n * sizeof *longer);
        *list = longer;
    }
    (*list)[(*n)++] = id;
}

/* ---- methods ---- */

/* g:input(name, dtype, shape [, {lo, hi}]) */
static int builder_input(lua_State *L) {
    struct builder *b = begin(L);
    const char *name = check_name(L, 2);
    enum ak_dtype dtype = check_dtype(L, 3);
    check_options(L, 5, (const char *const[]){"lo", "hi", NULL});
    int64_t lo = int_option(L, 5, "lo", 0), hi = int_option(L, 5, "hi", 2);
    if (lo >= hi) return luaL_error(L, "'%s' is drawn from an empty range", name);
    int id = ak_graph_add_value(b->g, name, AK_VALUE_INPUT, check_shape(L, 4, dtype, name));
    b->g->values[id].lo = lo;
    b->g->values[id].hi = hi;
    append(b->g, &b->g->inputs, &b->g->ninputs, id);
    push_value(L, b, id);
    b->busy = false;
    return 1;
}

/* g:weight(name, shape [, {dtype, mean, std}]) */
static int builder_weight(lua_State *L) {
    struct builder *b = begin(L);
    const char *name = check_name(L, 2);
    check_options(L, 4, (const char *const[]){"dtype", "mean", "std", NULL});
    enum ak_dtype dtype = option(L, 4, "dtype") ? check_dtype(L, -1) : b->dtype;
    if (!ak_dtype_is_float(dtype)) return luaL_error(L, "weight '%s' would be %s: normal numbers need a float", name, ak_dtype_name(dtype));
    double mean = number_option(L, 4, "mean", 0), std = number_option(L, 4, "std", 0.02);
    if (std < 0) return luaL_error(L, "option 'std' is negative");
    int id = ak_graph_add_value(b->g, name, AK_VALUE_RANDOM, check_shape(L, 3, dtype, name));
    struct ak_value *v = &b->g->values[id];
    v->mean = mean;
    v->std = std;
    /* 53 bits: a seed that JSON numbers hold exactly */
    v->seed = ak_rand_seed(0, name) >> 11;
    push_value(L, b, id);
    b->busy = false;
    return 1;
}

static int builder_output(lua_State *L) {
    struct builder *b = begin(L);
    for (int i = 2; i <= lua_gettop(L); i++) {
        int id = value_id(L, b, i);
        if (id < 0 || b->g->values[id].kind == AK_VALUE_INT) return luaL_error(L, "output %d is a %s, not a tensor", i - 1, luaL_typename(L, i));
        append(b->g, &b->g->outputs, &b->g->noutputs, id);
    }
    b->busy = false;
    return 0;
}

/* ---- g:op ---- */

struct arg { /* the argument that is being read: the value on top of the stack */
    const struct ak_op *op;
    size_t i;
};

static int bad(lua_State *L, struct arg a, const char *want, int at) {
    at = lua_absindex(L, at);
    luaL_tolstring(L, at, NULL);
    bool plain = lua_type(L, at) == LUA_TNUMBER || lua_type(L, at) == LUA_TSTRING || lua_type(L, at) == LUA_TBOOLEAN;
    return luaL_error(L, "%s: argument '%s' wants %s, not %s%s", a.op->name, a.op->args[a.i].name, want, plain ? "" : "a ",
                      plain ? lua_tostring(L, -1) : luaL_typename(L, at));
}

static struct ak_garg constant(struct ak_val v) { return (struct ak_garg){.kind = AK_GARG_CONST, .val = v}; }

static struct ak_garg value_arg(struct ak_graph *g, int id) {
    int *ids = ak_arena_alloc(&g->arena, sizeof *ids);
    *ids = id;
    return (struct ak_garg){.kind = AK_GARG_VALUE, .ids = ids, .n = 1};
}

static struct ak_garg scalar_arg(lua_State *L, struct builder *b, struct arg a, const char *want) {
    (void)b;
    if (lua_isinteger(L, -1)) return constant((struct ak_val){.kind = AK_VAL_INT, .i = lua_tointeger(L, -1)});
    if (lua_isboolean(L, -1)) return constant((struct ak_val){.kind = AK_VAL_BOOL, .i = lua_toboolean(L, -1)});
    if (lua_type(L, -1) != LUA_TNUMBER) bad(L, a, want, -1);
    return constant((struct ak_val){.kind = AK_VAL_FLOAT, .f = lua_tonumber(L, -1)});
}

/* A number stands for a tensor of rank 0, as in PyTorch. */
static struct ak_garg tensor_arg(lua_State *L, struct builder *b, struct arg a) {
    int id = value_id(L, b, -1);
    return id >= 0 ? value_arg(b->g, id) : scalar_arg(L, b, a, "a tensor");
}

static int64_t check_int(lua_State *L, struct arg a, int at) {
    int is;
    int64_t v = lua_type(L, at) == LUA_TNUMBER ? lua_tointegerx(L, at, &is) : (is = 0);
    return is ? v : bad(L, a, "an integer", at);
}

static struct ak_garg int_arg(lua_State *L, struct builder *b, struct arg a) {
    int id = value_id(L, b, -1);
    if (id >= 0 && b->g->values[id].kind == AK_VALUE_INT) return value_arg(b->g, id);
    return constant((struct ak_val){.kind = AK_VAL_INT, .i = check_int(L, a, -1)});
}

static size_t list_length(lua_State *L, struct arg a) {
    if (!lua_istable(L, -1)) bad(L, a, "a list", -1);
    if (lua_rawlen(L, -1) > MOST_LIST) luaL_error(L, "%s: argument '%s' has more than %d entries", a.op->name, a.op->args[a.i].name, MOST_LIST);
    return lua_rawlen(L, -1);
}

/* In a Tensor?[] false is an absent entry. */
static struct ak_garg tensors_arg(lua_State *L, struct builder *b, struct arg a) {
    size_t n = list_length(L, a);
    bool may_lack = strncmp(a.op->args[a.i].type, "Tensor?[", 8) == 0;
    struct ak_garg list = {.kind = AK_GARG_VALUES, .ids = ak_arena_alloc(&b->g->arena, (n + 1) * sizeof(int)), .n = n};
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        list.ids[i] = value_id(L, b, -1);
        bool absent = may_lack && lua_isboolean(L, -1) && !lua_toboolean(L, -1);
        if (list.ids[i] < 0 && !absent) bad(L, a, "tensors", -1);
        lua_pop(L, 1);
    }
    return list;
}

/* A single number stands for a list of one. */
static struct ak_garg ints_arg(lua_State *L, struct builder *b, struct arg a) {
    bool one = lua_type(L, -1) == LUA_TNUMBER;
    size_t n = one ? 1 : list_length(L, a);
    int64_t *v = ak_arena_alloc(&b->g->arena, (n + 1) * sizeof *v);
    if (one) v[0] = check_int(L, a, -1);
    for (size_t i = 0; !one && i < n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        v[i] = check_int(L, a, -1);
        lua_pop(L, 1);
    }
    return constant((struct ak_val){.kind = AK_VAL_INTS, .ints = {v, n}});
}

static struct ak_garg floats_arg(lua_State *L, struct builder *b, struct arg a) {
    size_t n = list_length(L, a);
    double *v = ak_arena_alloc(&b->g->arena, (n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        if (lua_type(L, -1) != LUA_TNUMBER) bad(L, a, "numbers", -1);
        v[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return constant((struct ak_val){.kind = AK_VAL_FLOATS, .floats = {v, n}});
}

static struct ak_garg float_arg(lua_State *L, struct builder *b, struct arg a) {
    (void)b;
    if (lua_type(L, -1) != LUA_TNUMBER) bad(L, a, "a number", -1);
    return constant((struct ak_val){.kind = AK_VAL_FLOAT, .f = lua_tonumber(L, -1)});
}

static struct ak_garg bool_arg(lua_State *L, struct builder *b, struct arg a) {
    (void)b;
    if (!lua_isboolean(L, -1)) bad(L, a, "true or false", -1);
    return constant((struct ak_val){.kind = AK_VAL_BOOL, .i = lua_toboolean(L, -1)});
}

static struct ak_garg str_arg(lua_State *L, struct builder *b, struct arg a) {
    if (lua_type(L, -1) != LUA_TSTRING || lua_rawlen(L, -1) > MOST_NAME) bad(L, a, "a short string", -1);
    return constant((struct ak_val){.kind = AK_VAL_STR, .s = ak_arena_strdup(&b->g->arena, lua_tostring(L, -1))});
}

static struct ak_garg dtype_arg(lua_State *L, struct builder *b, struct arg a) {
    (void)b;
    int d = lua_type(L, -1) == LUA_TSTRING ? ak_dtype_from_name(lua_tostring(L, -1)) : -1;
    if (d < 0) bad(L, a, "the name of a dtype", -1);
    return constant((struct ak_val){.kind = AK_VAL_INT, .i = d});
}

static struct ak_garg number_arg(lua_State *L, struct builder *b, struct arg a) { return scalar_arg(L, b, a, "a number"); }

/* By what the schema's type begins with; the longer first. */
static const struct {
    const char *type;
    struct ak_garg (*read)(lua_State *L, struct builder *b, struct arg a);
} readers[] = {{"Tensor[", tensors_arg}, {"Tensor?[", tensors_arg}, {"Tensor", tensor_arg},     {"int[", ints_arg}, {"int", int_arg},
               {"float[", floats_arg},   {"float", float_arg},      {"ScalarType", dtype_arg}, {"Scalar", number_arg}, {"bool", bool_arg},
               {"str", str_arg},         {"Device", str_arg},       {"MemoryFormat", int_arg}, {"Layout", int_arg}};

static struct ak_garg read_arg(lua_State *L, struct builder *b, struct arg a) {
    const char *type = a.op->args[a.i].type;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strncmp(type, readers[i].type, strlen(readers[i].type)) == 0) return readers[i].read(L, b, a);
    luaL_error(L, "%s: argument '%s' is a %s, which cannot be given", a.op->name, a.op->args[a.i].name, type);
    return (struct ak_garg){0};
}

/* Every key of the table is the place or the name of an argument, and none is given twice. */
static void check_keys(lua_State *L, const struct ak_op *op, int at) {
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
        bool named = lua_type(L, -2) == LUA_TSTRING;
        int i = named ? ak_op_arg_index(op, lua_tostring(L, -2)) : -1;
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= (lua_Integer)op->nargs) continue;
        if (i < 0) luaL_error(L, named ? "%s has no argument '%s'" : "%s has no argument %s", op->name, luaL_tolstring(L, -2, NULL));
        if (lua_rawgeti(L, at, i + 1) != LUA_TNIL) luaL_error(L, "%s: argument '%s' is given by place and by name", op->name, op->args[i].name);
        lua_pop(L, 1);
    }
}

static void read_args(lua_State *L, struct builder *b, int n) {
    const struct ak_op *op = b->g->nodes[n].op;
    for (size_t i = 0; i < op->nargs; i++) {
        if (lua_rawgeti(L, 3, (lua_Integer)i + 1) == LUA_TNIL) {
            lua_pop(L, 1);
            lua_pushstring(L, op->args[i].name);
            lua_rawget(L, 3);
        }
        if (!lua_isnil(L, -1))
            b->g->nodes[n].args[i] = read_arg(L, b, (struct arg){op, i});
        else if (!op->args[i].has_default && !op->args[i].optional)
            luaL_error(L, "%s wants its argument '%s'", op->name, op->args[i].name);
        lua_pop(L, 1);
    }
}

/* g:op(name, {arguments}) */
static int builder_op(lua_State *L) {
    struct builder *b = begin(L);
    const char *name = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    const struct ak_op *op = ak_op_find(name);
    char near[256];
    if (!op) return luaL_error(L, "unknown op '%s'; there are: %s", name, ak_op_near(name, near, sizeof near));
    check_keys(L, op, 3);
    int n = ak_graph_add_node(b->g, op, push_node_name(L, op));
    lua_getiuservalue(L, 1, 1);
    b->g->nodes[n].origin = ak_arena_strdup(&b->g->arena, lua_tostring(L, -1));
    lua_settop(L, 3);
    read_args(L, b, n);
    struct ak_err err = {0};
    if (ak_graph_infer(b->g, n, &err)) return luaL_error(L, "%s", err.msg);
    size_t outs = b->g->nodes[n].nouts;
    luaL_checkstack(L, (int)outs + 8, "too many outputs");
    for (size_t i = 0; i < outs; i++) {
        int id = b->g->nodes[n].outs[i];
        if (i) take(L, b->g->values[id].name);
        push_value(L, b, id);
    }
    b->busy = false;
    return (int)outs;
}

static int builder_set(lua_State *L) {
    luaL_checkudata(L, 1, builder_meta);
    size_t len;
    if (strcmp(luaL_checkstring(L, 2), "origin")) return luaL_error(L, "only g.origin can be set, not g.%s", lua_tostring(L, 2));
    luaL_checklstring(L, 3, &len);
    if (len > MOST_NAME) return luaL_error(L, "an origin has at most %d characters", MOST_NAME);
    lua_setiuservalue(L, 1, 1);
    return 0;
}

/* ---- a build ---- */

struct build {
    struct ak_graph *g;
    enum ak_dtype dtype;
    struct builder *b; /* Lua's; anchored in the registry */
};

static int push_builder(lua_State *L) {
    static const luaL_Reg methods[] = {{"input", builder_input}, {"weight", builder_weight}, {"op", builder_op}, {"output", builder_output}, {NULL, NULL}};
    struct build *build = lua_touserdata(L, 1);
    if (luaL_newmetatable(L, value_meta)) {
        lua_pushcfunction(L, value_index);
        lua_setfield(L, -2, "__index");
        lua_pushliteral(L, "a value");
        lua_setfield(L, -2, "__metatable");
    }
    if (luaL_newmetatable(L, builder_meta)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, builder_set);
        lua_setfield(L, -2, "__newindex");
        lua_pushliteral(L, "a graph");
        lua_setfield(L, -2, "__metatable");
    }
    struct builder *b = lua_newuserdatauv(L, sizeof *b, 2);
    *b = (struct builder){.g = build->g, .dtype = build->dtype};
    luaL_setmetatable(L, builder_meta);
    lua_pushliteral(L, "");
    lua_setiuservalue(L, -2, 1);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 2);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "ak.building");
    build->b = b;
    return 1;
}

int ak_build_graph(struct ak_rules *r, const char *fn, const cJSON *arg, struct ak_graph *g, struct ak_err *err) {
    const cJSON *d = ak_json_get(arg, "dtype");
    int dtype = cJSON_IsString(d) ? ak_dtype_from_name(d->valuestring) : AK_F32;
    if (dtype < 0) return ak_fail(err, AK_EXIT_INPUT, "unknown dtype '%s'", d->valuestring);
    struct build build = {.g = g, .dtype = (enum ak_dtype)dtype};
    int rc = ak_rules_run(r, fn, push_builder, &build, arg, err);
    bool failed = build.b && build.b->busy;
    if (build.b) build.b->g = NULL;
    if (rc) return rc;
    if (failed) return ak_fail(err, AK_EXIT_INPUT, "'%s': a call on the graph failed, and a pcall hid it", fn);
    if (!g->noutputs) return ak_fail(err, AK_EXIT_INPUT, "'%s': the graph has no output: g:output(...) was not called", fn);
    return 0;
}
