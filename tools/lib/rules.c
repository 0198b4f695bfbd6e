/* The sandbox: a Lua state whose globals are made by hand. No io, os, debug, package or load; the
 * allocator bounds memory, a count hook bounds instructions and keeps raising once they are used
 * up, so that a pcall cannot swallow the end; pairs goes by sorted keys, since the order of a
 * hash table differs from run to run. */
#include "rules.h"

#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "json.h"
#include "lua_host.h"
#include "mem.h"

enum {
    MEMORY_LIMIT = 512 << 20,
    STEP = 10000,         /* instructions between two looks of the hook */
    MAX_STEPS = 200000,   /* 2e9 instructions: about ten seconds */
    MAX_DEPTH = 100,      /* of nested tables */
    RANDOM_SEED = 20240229
};

struct ak_rules {
    lua_State *L;
    char *path, *dir;
    size_t memory;
    long steps;
};

static void *alloc(void *ud, void *p, size_t old, size_t size) {
    struct ak_rules *r = ud;
    if (!p) old = 0;
    if (size == 0) {
        free(p);
        r->memory -= old;
        return NULL;
    }
    if (r->memory - old + size > MEMORY_LIMIT) return NULL;
    void *q = realloc(p, size);
    if (q) r->memory += size - old;
    return q;
}

static struct ak_rules *host_of(lua_State *L) {
    void *ud;
    lua_getallocf(L, &ud);
    return ud;
}

static void count(lua_State *L, lua_Debug *ar) {
    (void)ar;
    if (++host_of(L)->steps <= MAX_STEPS) return;
    lua_sethook(L, count, LUA_MASKCOUNT, 1); /* from now on every instruction raises, a pcall loop's too */
    luaL_error(L, "used up its %d million instructions", MAX_STEPS / 1000 * STEP / 1000);
}

/* ---- what the sandbox offers beside Lua's own pure functions ---- */

static const char array_mark; /* registry key of the metatable that array{} sets */

static int array(lua_State *L) {
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_mark);
    lua_setmetatable(L, 1);
    return 1;
}

/* Keys in order: numbers before strings, everything else last and unordered. */
static int key_less(lua_State *L, int a, int b) {
    int ta = lua_type(L, a), tb = lua_type(L, b);
    if (ta != tb) return ta == LUA_TNUMBER || (ta == LUA_TSTRING && tb != LUA_TNUMBER);
    return (ta == LUA_TNUMBER || ta == LUA_TSTRING) && lua_compare(L, a, b, LUA_OPLT);
}

static int less(lua_State *L) {
    lua_pushboolean(L, key_less(L, 1, 2));
    return 1;
}

static int next_sorted(lua_State *L) { /* upvalues: the keys, how far */
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(2)) + 1;
    lua_pushinteger(L, i);
    lua_replace(L, lua_upvalueindex(2));
    if (lua_rawgeti(L, lua_upvalueindex(1), i) == LUA_TNIL) return 1;
    lua_pushvalue(L, -1);
    lua_gettable(L, 1);
    return 2;
}

static int pairs_sorted(lua_State *L) {
    luaL_checkany(L, 1);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "table.sort");
    lua_newtable(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, 1);) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_rawseti(L, 3, ++n);
    }
    lua_pushvalue(L, 3);
    lua_insert(L, 2);
    lua_pushcfunction(L, less);
    lua_call(L, 2, 0);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_sorted, 2);
    lua_pushvalue(L, 1);
    return 2;
}

static int print_stderr(lua_State *L) {
    for (int i = 1; i <= lua_gettop(L); i++)
        fprintf(stderr, "%s%s", i > 1 ? "\t" : "", luaL_tolstring(L, i, NULL)), lua_pop(L, 1);
    fputc('\n', stderr);
    return 0;
}

/* require "name": NAME.lua beside the rule, loaded once. */
static int require(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct ak_rules *r = host_of(L);
    if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name)) return luaL_error(L, "'%s' is not the name of a module", name);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "loaded modules");
    if (lua_getfield(L, -1, name) != LUA_TNIL) return 1;
    lua_pop(L, 1);
    lua_pushfstring(L, "%s/%s.lua", r->dir, name);
    if (luaL_loadfilex(L, lua_tostring(L, -1), "t")) return lua_error(L);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, name);
    return 1;
}

static void keep_only(lua_State *L, const char *const *names) {
    lua_newtable(L);
    for (; *names; names++) {
        lua_getfield(L, -2, *names);
        lua_setfield(L, -2, *names);
    }
    lua_remove(L, -2);
}

static int open_sandbox(lua_State *L) {
    static const char *const base[] = {"assert", "error", "getmetatable", "ipairs", "next", "pcall", "rawequal", "rawget", "rawlen",
                                       "rawset", "select", "setmetatable", "tonumber", "tostring", "type", "xpcall", NULL};
    static const luaL_Reg own[] = {{"pairs", pairs_sorted}, {"print", print_stderr}, {"require", require}, {"array", array}, {NULL, NULL}};
    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    keep_only(L, base);
    luaL_setfuncs(L, own, 0);
    luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    lua_setfield(L, -2, LUA_STRLIBNAME);
    luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 0);
    lua_getfield(L, -1, "sort");
    lua_setfield(L, LUA_REGISTRYINDEX, "table.sort");
    lua_setfield(L, -2, LUA_TABLIBNAME);
    luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, RANDOM_SEED);
    lua_call(L, 1, 0);
    lua_pushnil(L);
    lua_setfield(L, -2, "randomseed");
    lua_setfield(L, -2, LUA_MATHLIBNAME);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_mark);
    return 0;
}

/* ---- JSON to Lua and back ---- */

/* A null is nil: a field that is absent. */
static void push(lua_State *L, const cJSON *v) {
    luaL_checkstack(L, 4, "too deep");
    int64_t i;
    struct ak_err ignored;
    switch (v->type & 0xff) {
    case cJSON_True: lua_pushboolean(L, 1); break;
    case cJSON_False: lua_pushboolean(L, 0); break;
    case cJSON_String: lua_pushstring(L, v->valuestring); break;
    case cJSON_Raw: lua_pushinteger(L, strtoll(v->valuestring, NULL, 10)); break;
    case cJSON_Number:
        if (ak_json_as_i64(v, &i, &ignored) == 0 && fabs(v->valuedouble) < 0x1p63)
            lua_pushinteger(L, i);
        else if (v->valuedouble == 0x1p63)
            lua_pushinteger(L, INT64_MAX);
        else
            lua_pushnumber(L, v->valuedouble);
        break;
    case cJSON_Array: {
        lua_newtable(L);
        lua_Integer n = 0;
        for (const cJSON *e = v->child; e; e = e->next) {
            push(L, e);
            lua_rawseti(L, -2, ++n);
        }
        lua_rawgetp(L, LUA_REGISTRYINDEX, &array_mark);
        lua_setmetatable(L, -2);
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

static cJSON *pull(lua_State *L, int at, int depth, const char *where);

static bool is_array(lua_State *L, int at) {
    if (lua_rawlen(L, at) > 0) return true;
    if (!lua_getmetatable(L, at)) return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_mark);
    bool marked = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return marked;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static cJSON *pull_table(lua_State *L, int at, int depth) {
    if (is_array(L, at)) {
        cJSON *a = cJSON_CreateArray();
        lua_Integer n = (lua_Integer)lua_rawlen(L, at);
        for (lua_Integer i = 1; i <= n; i++) {
            lua_rawgeti(L, at, i);
            cJSON_AddItemToArray(a, pull(L, lua_gettop(L), depth + 1, "an element"));
            lua_pop(L, 1);
        }
        return a;
    }
    /* by sorted keys: the order of a hash table differs from run to run */
    size_t n = 0, cap = 0;
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
        cap++;
    const char **keys = lua_newuserdatauv(L, (cap + 1) * sizeof *keys, 0);
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) luaL_error(L, "a table that is returned has a key that is not a string");
        keys[n++] = lua_tostring(L, -2);
    }
    qsort(keys, n, sizeof *keys, by_text);
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < n; i++) {
        lua_getfield(L, at, keys[i]);
        cJSON_AddItemToObject(o, keys[i], pull(L, lua_gettop(L), depth + 1, keys[i]));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return o;
}

/* What a rule returned. A function, a coroutine or a cycle in it is an error. (The tree leaks on
 * an error; the tool that sees one is about to end.) */
static cJSON *pull(lua_State *L, int at, int depth, const char *where) {
    if (depth > MAX_DEPTH) luaL_error(L, "a table that is returned is nested more than %d deep, or holds itself", MAX_DEPTH);
    luaL_checkstack(L, 8, "too deep");
    switch (lua_type(L, at)) {
    case LUA_TNIL: return cJSON_CreateNull();
    case LUA_TBOOLEAN: return cJSON_CreateBool(lua_toboolean(L, at));
    case LUA_TSTRING: return cJSON_CreateString(lua_tostring(L, at));
    case LUA_TNUMBER: return lua_isinteger(L, at) ? ak_json_new_i64(lua_tointeger(L, at)) : ak_json_new_num(lua_tonumber(L, at));
    case LUA_TTABLE: return pull_table(L, at, depth);
    default: luaL_error(L, "%s that is returned is a %s", where, luaL_typename(L, at)); return NULL;
    }
}

/* ---- calls ---- */

static int traceback(lua_State *L) {
    const char *msg = lua_tostring(L, 1);
    luaL_traceback(L, L, msg ? msg : "(an error that is not a string)", 1);
    return 1;
}

/* Runs what lies on the stack (a function and nargs arguments) under the limits. */
static int guarded(struct ak_rules *r, int nargs, int nresults, struct ak_err *err) {
    lua_State *L = r->L;
    int base = lua_gettop(L) - nargs;
    lua_pushcfunction(L, traceback);
    lua_insert(L, base);
    r->steps = 0;
    lua_sethook(L, count, LUA_MASKCOUNT, STEP);
    int rc = lua_pcall(L, nargs, nresults, base);
    lua_remove(L, base);
    if (rc == LUA_OK) return 0;
    const char *msg = lua_tostring(L, -1);
    ak_fail(err, AK_EXIT_INPUT, "%s", rc == LUA_ERRMEM ? "out of its memory (512 MiB)" : msg ? msg : "unknown error");
    if (rc == LUA_ERRMEM) ak_fail_in(err, "%s", r->path);
    lua_pop(L, 1);
    return -1;
}

static int load(lua_State *L) {
    struct ak_rules *r = lua_touserdata(L, 1);
    if (luaL_loadfilex(L, r->path, "t")) return lua_error(L);
    lua_call(L, 0, 1);
    if (!lua_istable(L, -1)) return luaL_error(L, "%s: a rule is a module that returns a table", r->path);
    lua_setfield(L, LUA_REGISTRYINDEX, "module");
    return 0;
}

struct ak_rules *ak_rules_open(const char *path, struct ak_err *err) {
    struct ak_rules *r = ak_calloc(1, sizeof *r);
    r->path = ak_strdup(path);
    r->dir = ak_path_dir(path);
    r->L = lua_newstate(alloc, r);
    if (!r->L) ak_die(AK_EXIT_IO, "out of memory");
    lua_pushcfunction(r->L, open_sandbox);
    int rc = guarded(r, 0, 0, err);
    if (rc == 0) {
        lua_pushcfunction(r->L, load);
        lua_pushlightuserdata(r->L, r);
        rc = guarded(r, 1, 0, err);
    }
    if (rc == 0) return r;
    ak_rules_close(r);
    return NULL;
}

void ak_rules_close(struct ak_rules *r) {
    if (!r) return;
    lua_close(r->L);
    free(r->path);
    free(r->dir);
    free(r);
}

struct call {
    const char *name;
    const cJSON *arg;
    cJSON *result;
    lua_CFunction push_first; /* may be NULL */
    void *first;
};

static int call(lua_State *L) {
    struct call *c = lua_touserdata(L, 1);
    struct ak_rules *r = host_of(L);
    lua_getfield(L, LUA_REGISTRYINDEX, "module");
    if (lua_getfield(L, -1, c->name) != LUA_TFUNCTION) return luaL_error(L, "%s: there is no function '%s'", r->path, c->name);
    int nargs = 1;
    if (c->push_first) {
        lua_pushcfunction(L, c->push_first);
        lua_pushlightuserdata(L, c->first);
        lua_call(L, 1, 1);
        nargs++;
    }
    push(L, c->arg);
    lua_call(L, nargs, 1);
    c->result = c->push_first ? cJSON_CreateNull() : pull(L, lua_gettop(L), 0, "the value");
    return 0;
}

static cJSON *protected_call(struct ak_rules *r, struct call *c, struct ak_err *err) {
    lua_pushcfunction(r->L, call);
    lua_pushlightuserdata(r->L, c);
    return guarded(r, 1, 0, err) ? NULL : c->result;
}

cJSON *ak_rules_call(struct ak_rules *r, const char *name, const cJSON *arg, struct ak_err *err) {
    return protected_call(r, &(struct call){.name = name, .arg = arg}, err);
}

int ak_rules_run(struct ak_rules *r, const char *name, lua_CFunction push_first, void *first, const cJSON *arg, struct ak_err *err) {
    cJSON *none = protected_call(r, &(struct call){.name = name, .arg = arg, .push_first = push_first, .first = first}, err);
    cJSON_Delete(none);
    return none ? 0 : -1;
}

static int field(lua_State *L) {
    struct call *c = lua_touserdata(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "module");
    if (lua_getfield(L, -1, c->name) == LUA_TNIL) return luaL_error(L, "%s: there is no field '%s'", host_of(L)->path, c->name);
    c->result = pull(L, lua_gettop(L), 0, c->name);
    return 0;
}

cJSON *ak_rules_field(struct ak_rules *r, const char *name, struct ak_err *err) {
    struct call c = {.name = name};
    lua_pushcfunction(r->L, field);
    lua_pushlightuserdata(r->L, &c);
    return guarded(r, 1, 0, err) ? NULL : c.result;
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
