/* Data crosses to Lua and back as trees. What a function returned is attached to its tree as it is
 * read, so that an error half way leaves one tree to delete. */
#include "rules.h"

#include <lauxlib.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "lua_host.h"
#include "mem.h"
#include "sandbox.h"

enum {
    MAX_DEPTH = 100,    /* of nested tables */
    MAX_ITEMS = 1 << 22 /* of one result: tables that share tables can stand for very many */
};

struct ak_rules {
    struct ak_sandbox box;
};

struct call {
    const char *name;
    const cJSON *arg;
    lua_CFunction push_first; /* may be NULL */
    void *first;
    cJSON *result;
    size_t items;
};

/* ---- JSON to Lua ---- */

static void push_number(lua_State *L, double d) {
    if (d == -0x1p63 || d == 0x1p63) /* how INT64_MIN and INT64_MAX are read */
        lua_pushinteger(L, d < 0 ? INT64_MIN : INT64_MAX);
    else if (d == floor(d) && fabs(d) < 0x1p63)
        lua_pushinteger(L, (lua_Integer)d);
    else
        lua_pushnumber(L, d);
}

/* A null is nil: a field that is absent. In an array it leaves a hole, and at its end nothing. */
static void push(lua_State *L, const cJSON *v) {
    luaL_checkstack(L, 4, "too deep");
    switch (v->type & 0xff) {
    case cJSON_True: lua_pushboolean(L, 1); break;
    case cJSON_False: lua_pushboolean(L, 0); break;
    case cJSON_String: lua_pushstring(L, v->valuestring); break;
    case cJSON_Raw: lua_pushinteger(L, strtoll(v->valuestring, NULL, 10)); break; /* ak_json_new_i64 */
    case cJSON_Number: push_number(L, v->valuedouble); break;
    case cJSON_Array: {
        lua_createtable(L, cJSON_GetArraySize(v), 0);
        lua_Integer n = 0;
        for (const cJSON *e = v->child; e; e = e->next) {
            push(L, e);
            lua_rawseti(L, -2, ++n);
        }
        ak_sandbox_mark_array(L);
        break;
    }
    case cJSON_Object:
        lua_newtable(L);
        for (const cJSON *e = v->child; e; e = e->next) {
            push(L, e);
            lua_setfield(L, -2, e->string);
        }
        break;
    default: lua_pushnil(L); break;
    }
}

/* ---- Lua to JSON ---- */

struct place { /* where in the result: a chain up to its root */
    const struct place *up;
    const char *key; /* NULL: an index */
    lua_Integer index;
    int depth;
};

static void push_path(lua_State *L, const struct place *p) {
    if (!p->up) {
        lua_pushliteral(L, "");
        return;
    }
    luaL_checkstack(L, 4, "too deep");
    push_path(L, p->up);
    if (p->key)
        lua_pushfstring(L, "%s%s", p->up->up ? "." : "", p->key);
    else
        lua_pushfstring(L, "[%I]", p->index);
    lua_concat(L, 2);
}

/* what: "is a %s" and the like */
static void refuse(lua_State *L, const struct call *c, const struct place *p, const char *what, const char *type) {
    push_path(L, p);
    const char *path = lua_tostring(L, -1), *file = ak_sandbox_of(L)->path;
    lua_pushfstring(L, what, type);
    if (*path)
        luaL_error(L, "%s: '%s' of what '%s' gives %s", file, path, c->name, lua_tostring(L, -1));
    else
        luaL_error(L, "%s: what '%s' gives %s", file, c->name, lua_tostring(L, -1));
}

static void pull(lua_State *L, struct call *c, cJSON *into, const struct place *p);

static void attach(struct call *c, cJSON *into, const struct place *p, cJSON *item) {
    if (!item) ak_die(AK_EXIT_IO, "out of memory");
    if (!into)
        c->result = item;
    else if (p->key)
        cJSON_AddItemToObject(into, p->key, item);
    else
        cJSON_AddItemToArray(into, item);
}

static void pull_array(lua_State *L, struct call *c, cJSON *a, const struct place *p, int at) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, at);
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
        if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 || lua_tointeger(L, -2) > n) refuse(L, c, p, "is a list with other keys too", "");
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, at, i);
        pull(L, c, a, &(struct place){.up = p, .index = i, .depth = p->depth + 1});
        lua_pop(L, 1);
    }
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* By sorted keys: the order of a hash table differs from run to run. */
static void pull_object(lua_State *L, struct call *c, cJSON *o, const struct place *p, int at) {
    size_t n = 0, cap = 0;
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
        cap++;
    const char **keys = lua_newuserdatauv(L, (cap + 1) * sizeof *keys, 0);
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) refuse(L, c, p, "has a key that is a %s", luaL_typename(L, -2));
        keys[n] = lua_tostring(L, -2);
        if (strlen(keys[n]) != lua_rawlen(L, -2)) refuse(L, c, p, "has a key with a zero byte", "");
        n++;
    }
    qsort(keys, n, sizeof *keys, by_text);
    for (size_t i = 0; i < n; i++) {
        lua_pushstring(L, keys[i]);
        lua_rawget(L, at);
        pull(L, c, o, &(struct place){.up = p, .key = keys[i], .depth = p->depth + 1});
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void pull_table(lua_State *L, struct call *c, cJSON *into, const struct place *p, int at) {
    if (p->depth > MAX_DEPTH) refuse(L, c, p->up, "is nested too deep, or holds itself", "");
    bool array = lua_rawlen(L, at) > 0 || ak_sandbox_is_array(L, at);
    cJSON *t = array ? cJSON_CreateArray() : cJSON_CreateObject();
    attach(c, into, p, t);
    (array ? pull_array : pull_object)(L, c, t, p, at);
}

/* The value on top of the stack. */
static void pull(lua_State *L, struct call *c, cJSON *into, const struct place *p) {
    int at = lua_gettop(L);
    luaL_checkstack(L, 8, "too deep");
    if (++c->items > MAX_ITEMS) refuse(L, c, p, "is more than can be", "");
    switch (lua_type(L, at)) {
    case LUA_TNIL: attach(c, into, p, cJSON_CreateNull()); break;
    case LUA_TBOOLEAN: attach(c, into, p, cJSON_CreateBool(lua_toboolean(L, at))); break;
    case LUA_TSTRING:
        if (strlen(lua_tostring(L, at)) != lua_rawlen(L, at)) refuse(L, c, p, "holds a zero byte", "");
        attach(c, into, p, cJSON_CreateString(lua_tostring(L, at)));
        break;
    case LUA_TNUMBER: attach(c, into, p, lua_isinteger(L, at) ? ak_json_new_i64(lua_tointeger(L, at)) : ak_json_new_num(lua_tonumber(L, at))); break;
    case LUA_TTABLE: pull_table(L, c, into, p, at); break;
    default: refuse(L, c, p, "is a %s", luaL_typename(L, at));
    }
}

/* ---- calls ---- */

static int load(lua_State *L) {
    const char *path = ak_sandbox_of(L)->path;
    ak_sandbox_load(L, path);
    lua_call(L, 0, 1);
    if (!lua_istable(L, -1)) return luaL_error(L, "%s: it returns no table", path);
    lua_setfield(L, LUA_REGISTRYINDEX, "module");
    return 0;
}

struct ak_rules *ak_rules_open(const char *path, struct ak_err *err) {
    struct ak_rules *r = ak_calloc(1, sizeof *r);
    int rc = ak_sandbox_open(&r->box, path, err);
    if (!rc) {
        lua_pushcfunction(r->box.L, load);
        rc = ak_sandbox_call(&r->box, 0, 0, err);
    }
    if (!rc) return r;
    ak_rules_close(r);
    return NULL;
}

void ak_rules_close(struct ak_rules *r) {
    if (!r) return;
    ak_sandbox_close(&r->box);
    free(r);
}

static int call(lua_State *L) {
    struct call *c = lua_touserdata(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "module");
    if (lua_getfield(L, -1, c->name) != LUA_TFUNCTION)
        return luaL_error(L, "%s: there is no function '%s'", ak_sandbox_of(L)->path, c->name);
    int nargs = 1;
    if (c->push_first) {
        lua_pushcfunction(L, c->push_first);
        lua_pushlightuserdata(L, c->first);
        lua_call(L, 1, 1);
        nargs++;
    }
    push(L, c->arg);
    lua_call(L, nargs, 1);
    if (c->push_first) lua_pushboolean(L, 1); /* only that it ended */
    pull(L, c, NULL, &(struct place){0});
    return 0;
}

static int field(lua_State *L) {
    struct call *c = lua_touserdata(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "module");
    if (lua_getfield(L, -1, c->name) == LUA_TNIL) return luaL_error(L, "%s: there is no field '%s'", ak_sandbox_of(L)->path, c->name);
    pull(L, c, NULL, &(struct place){0});
    return 0;
}

static cJSON *protected(struct ak_rules *r, lua_CFunction f, struct call *c, struct ak_err *err) {
    lua_pushcfunction(r->box.L, f);
    lua_pushlightuserdata(r->box.L, c);
    if (ak_sandbox_call(&r->box, 1, 0, err) == 0) return c->result;
    cJSON_Delete(c->result);
    return NULL;
}

cJSON *ak_rules_call(struct ak_rules *r, const char *name, const cJSON *arg, struct ak_err *err) {
    return protected(r, call, &(struct call){.name = name, .arg = arg}, err);
}

int ak_rules_run(struct ak_rules *r, const char *name, lua_CFunction push_first, void *first, const cJSON *arg, struct ak_err *err) {
    cJSON *ended = protected(r, call, &(struct call){.name = name, .arg = arg, .push_first = push_first, .first = first}, err);
    cJSON_Delete(ended);
    return ended ? 0 : -1;
}

cJSON *ak_rules_field(struct ak_rules *r, const char *name, struct ak_err *err) {
    return protected(r, field, &(struct call){.name = name}, err);
}

const char *ak_home(void) {
    static char home[PATH_MAX];
    const char *given = getenv("AK_HOME");
    if (given && *given) return given;
    if (*home) return home;
    ssize_t n = readlink("/proc/self/exe", home, sizeof home - 1);
    if (n < 0) ak_die_errno(AK_EXIT_IO, "cannot tell where this program lies");
    home[n] = '\0';
    for (int up = 0; up < 3; up++) { /* HOME/build/bin/tool */
        char *slash = strrchr(home, '/');
        if (slash) *slash = '\0';
    }
    return home;
}
