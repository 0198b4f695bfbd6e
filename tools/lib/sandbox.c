/* Globals are made by hand. The allocator bounds memory. A count hook bounds instructions and
 * time, and goes on raising once they are used up, so that no pcall swallows the end. C functions
 * that can run for long without the hook are given bounds of their own. Finalizers are refused:
 * Lua runs them without the hook. */
#include "sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file.h"
#include "mem.h"

enum {
    MEMORY_MB = 512,
    STEP = 2000,          /* instructions between two looks of the hook */
    MILLIONS = 1000,      /* of instructions: some seconds */
    SECONDS = 6,          /* of processor time, for what instructions do not show */
    MOST_MOVED = 10000000, /* elements in one table.move */
    RANDOM_SEED = 20240229
};

/* Steps a pattern may need at worst: some seconds. */
static const double most_matching = 2e10;

static const char array_mark; /* the registry's key of the metatable that marks arrays */

static void *alloc(void *ud, void *p, size_t old, size_t size) {
    struct ak_sandbox *s = ud;
    if (!p) old = 0;
    if (size == 0) {
        free(p);
        s->memory -= old;
        return NULL;
    }
    if (s->memory - old + size > (size_t)MEMORY_MB << 20) return NULL;
    void *q = realloc(p, size);
    if (q) s->memory += size - old;
    return q;
}

struct ak_sandbox *ak_sandbox_of(lua_State *L) {
    void *ud;
    lua_getallocf(L, &ud);
    return ud;
}

static double processor_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void look(lua_State *L, lua_Debug *ar);

/* From now on every instruction raises, a pcall loop's too. */
static void end(lua_State *L, int level, const char *why) {
    lua_sethook(L, look, LUA_MASKCOUNT, 1);
    luaL_where(L, level);
    lua_pushstring(L, why);
    lua_concat(L, 2);
    lua_error(L);
}

/* level: 0 in the hook, 1 in a C function */
static void check_time(lua_State *L, int level) {
    if (processor_s() - ak_sandbox_of(L)->began_s > SECONDS) end(L, level, "runs for too long");
}

static void look(lua_State *L, lua_Debug *ar) {
    (void)ar;
    if (++ak_sandbox_of(L)->looks > MILLIONS * (1000000L / STEP)) end(L, 0, "runs for too many instructions");
    check_time(L, 0);
}

/* ---- arrays ---- */

void ak_sandbox_mark_array(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_mark);
    lua_setmetatable(L, -2);
}

int ak_sandbox_is_array(lua_State *L, int at) {
    if (!lua_getmetatable(L, at)) return 0;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_mark);
    int is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return is;
}

static int array(lua_State *L) {
    lua_settop(L, 1);
    if (lua_isnil(L, 1)) {
        lua_newtable(L);
        lua_replace(L, 1);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    ak_sandbox_mark_array(L);
    return 1;
}

/* ---- tables in the order of their keys: a hash table's own differs from run to run ---- */

static int rank_of(lua_State *L, int at) {
    switch (lua_type(L, at)) {
    case LUA_TBOOLEAN: return 0;
    case LUA_TNUMBER: return 1;
    case LUA_TSTRING: return 2;
    default: return luaL_error(L, "the order of a key that is a %s differs from run to run", luaL_typename(L, at));
    }
}

static int key_less(lua_State *L, int a, int b) {
    int ra = rank_of(L, a), rb = rank_of(L, b);
    if (ra != rb) return ra < rb;
    return ra ? lua_compare(L, a, b, LUA_OPLT) : lua_toboolean(L, a) < lua_toboolean(L, b);
}

static int less(lua_State *L) {
    lua_pushboolean(L, key_less(L, 1, 2));
    return 1;
}

/* next(t, k): the least key above k, and its value. */
static int next(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    lua_pushnil(L); /* 3: the least so far */
    for (lua_pushnil(L); lua_next(L, 1);) {
        lua_pop(L, 1);
        if ((lua_isnil(L, 2) || key_less(L, 2, 4)) && (lua_isnil(L, 3) || key_less(L, 4, 3))) {
            lua_pushvalue(L, 4);
            lua_replace(L, 3);
        }
    }
    if (lua_isnil(L, 3)) return 1;
    lua_pushvalue(L, 3);
    lua_rawget(L, 1);
    return 2;
}

static int next_of_keys(lua_State *L) { /* upvalues: the keys, how far */
    lua_settop(L, 1);
    for (lua_Integer i = lua_tointeger(L, lua_upvalueindex(2)) + 1;; i++) {
        if (lua_rawgeti(L, lua_upvalueindex(1), i) == LUA_TNIL) return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, 1) != LUA_TNIL) { /* else removed meanwhile */
            lua_pushinteger(L, i);
            lua_replace(L, lua_upvalueindex(2));
            return 2;
        }
        lua_settop(L, 1);
    }
}

static int pairs(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "table.sort");
    lua_newtable(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, 1);) {
        lua_pop(L, 1);
        rank_of(L, -1);
        lua_pushvalue(L, -1);
        lua_rawseti(L, 3, ++n);
    }
    lua_pushvalue(L, 3);
    lua_insert(L, 2);
    lua_pushcfunction(L, less);
    lua_call(L, 2, 0);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_of_keys, 2);
    lua_pushvalue(L, 1);
    return 2;
}

/* ---- Lua's own functions, bounded: each checks, then is the original on the same stack ---- */

static int original(lua_State *L) { return lua_tocfunction(L, lua_upvalueindex(1))(L); }

static int bounded_setmetatable(lua_State *L) {
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL) return luaL_error(L, "there are no finalizers (__gc) here");
        lua_pop(L, 1);
    }
    return original(L);
}

/* With __len a table would claim any length, and C would walk it. */
static int bounded_table(lua_State *L) {
    check_time(L, 1);
    if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL) return luaL_error(L, "a table with __len is not for the table library here");
    return original(L);
}

static int bounded_move(lua_State *L) {
    lua_Integer f = luaL_checkinteger(L, 2), e = luaL_checkinteger(L, 3);
    if (e >= f && (lua_Unsigned)e - (lua_Unsigned)f >= MOST_MOVED) return luaL_error(L, "more than %d elements to move", MOST_MOVED);
    return bounded_table(L);
}

static int bounded_rep(lua_State *L) {
    check_time(L, 1);
    if (*luaL_checkstring(L, 1) || lua_rawlen(L, 1) || *luaL_optstring(L, 3, "") || lua_rawlen(L, 3)) return original(L);
    luaL_checkinteger(L, 2);
    lua_pushliteral(L, ""); /* the original would count to n for it */
    return 1;
}

/* Parts of a pattern that match a varying length, each of which can be tried at every length. */
static int repetitions(const char *p, size_t len) {
    int n = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '%') {
            i++;
        } else if (p[i] == '[') {
            for (i += 1 + (i + 1 < len && p[i + 1] == '^') + 1; i < len && p[i] != ']'; i++)
                i += p[i] == '%';
        } else {
            n += strchr("*+-?", p[i]) && p[i] && i > 0;
        }
    }
    return n;
}

static int bounded_pattern(lua_State *L) {
    check_time(L, 1);
    size_t len, plen;
    luaL_checklstring(L, 1, &len);
    const char *p = luaL_checklstring(L, 2, &plen);
    int tries = repetitions(p, plen) + (*p != '^');
    if (tries > 1 && pow((double)len + 1, tries) > most_matching)
        return luaL_error(L, "a pattern with %d repetitions could match %d characters forever", repetitions(p, plen), (int)len);
    return original(L);
}

static int print(lua_State *L) {
    for (int i = 1; i <= lua_gettop(L); i++) {
        fprintf(stderr, "%s%s", i > 1 ? "\t" : "", luaL_tolstring(L, i, NULL));
        lua_pop(L, 1);
    }
    fputc('\n', stderr);
    return 0;
}

/* ---- modules ---- */

void ak_sandbox_load(lua_State *L, const char *path) {
    if (luaL_loadfilex(L, path, "t")) lua_error(L);
}

static int require(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] || strlen(name) != lua_rawlen(L, 1))
        return luaL_error(L, "'%s' is not the name of a module", name);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "modules");
    if (lua_getfield(L, -1, name) == LUA_TLIGHTUSERDATA) return luaL_error(L, "module '%s' requires itself", name);
    if (!lua_isnil(L, -1)) return 1;
    lua_pop(L, 1);
    lua_pushlightuserdata(L, L); /* while it loads */
    lua_setfield(L, -2, name);
    ak_sandbox_load(L, lua_pushfstring(L, "%s/%s.lua", ak_sandbox_of(L)->dir, name));
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) return luaL_error(L, "module '%s' returns nothing", name);
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, name);
    return 1;
}

/* ---- the globals ---- */

static void keep_only(lua_State *L, const char *const *names) {
    lua_newtable(L);
    for (; *names; names++) {
        lua_getfield(L, -2, *names);
        lua_setfield(L, -2, *names);
    }
    lua_remove(L, -2);
}

/* In the library on top of the stack; the functions wrapped take no upvalues. */
static void wrap(lua_State *L, lua_CFunction with, const char *const *names) {
    for (; *names; names++) {
        lua_getfield(L, -1, *names);
        lua_pushcclosure(L, with, 1);
        lua_setfield(L, -2, *names);
    }
}

static void open_base(lua_State *L) {
    static const char *const base[] = {"assert", "error",  "getmetatable", "ipairs",   "pcall", "rawequal", "rawget", "rawlen", "rawset",
                                       "select", "setmetatable", "tonumber", "tostring", "type",  "xpcall",   NULL};
    static const luaL_Reg own[] = {{"pairs", pairs}, {"next", next}, {"print", print}, {"require", require}, {"array", array}, {NULL, NULL}};
    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    keep_only(L, base);
    wrap(L, bounded_setmetatable, (const char *const[]){"setmetatable", NULL});
    luaL_setfuncs(L, own, 0);
}

/* Method syntax reaches the same table, so there is no other way to the originals. */
static void open_string(lua_State *L) {
    luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    wrap(L, bounded_rep, (const char *const[]){"rep", NULL});
    wrap(L, bounded_pattern, (const char *const[]){"find", "match", "gmatch", "gsub", NULL});
    lua_setfield(L, -2, LUA_STRLIBNAME);
}

static void open_table(lua_State *L) {
    luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 0);
    lua_getfield(L, -1, "sort");
    lua_setfield(L, LUA_REGISTRYINDEX, "table.sort");
    wrap(L, bounded_table, (const char *const[]){"concat", "insert", "remove", "sort", "unpack", NULL});
    wrap(L, bounded_move, (const char *const[]){"move", NULL});
    lua_setfield(L, -2, LUA_TABLIBNAME);
}

static void open_math(lua_State *L) {
    luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
    lua_getfield(L, -1, "randomseed");
    lua_setfield(L, LUA_REGISTRYINDEX, "math.randomseed");
    lua_pushnil(L);
    lua_setfield(L, -2, "randomseed");
    lua_setfield(L, -2, LUA_MATHLIBNAME);
}

static int open_all(lua_State *L) {
    open_base(L);
    open_string(L);
    open_table(L);
    open_math(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_mark);
    return 0;
}

/* ---- calls ---- */

/* Without the C functions that began it all. */
static int traceback(lua_State *L) {
    static const char outer[] = "\n\t[C]: in ?";
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    size_t len, n = sizeof outer - 1;
    const char *text = lua_tolstring(L, -1, &len);
    while (len > n && memcmp(text + len - n, outer, n) == 0)
        len -= n;
    lua_pushlstring(L, text, len);
    return 1;
}

/* A call of a function with its arguments, all on the stack, from fresh random numbers. */
static int seeded(lua_State *L) {
    if (lua_getfield(L, LUA_REGISTRYINDEX, "math.randomseed") == LUA_TFUNCTION) {
        lua_pushinteger(L, RANDOM_SEED);
        lua_call(L, 1, 0);
    } else {
        lua_pop(L, 1);
    }
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

int ak_sandbox_call(struct ak_sandbox *s, int nargs, int nresults, struct ak_err *err) {
    lua_State *L = s->L;
    int base = lua_gettop(L) - nargs;
    lua_pushcfunction(L, traceback);
    lua_insert(L, base);
    lua_pushcfunction(L, seeded);
    lua_insert(L, base + 1);
    s->looks = 0;
    s->began_s = processor_s();
    lua_sethook(L, look, LUA_MASKCOUNT, STEP);
    int rc = lua_pcall(L, nargs + 1, nresults, base);
    lua_sethook(L, NULL, 0, 0);
    lua_remove(L, base);
    if (rc == LUA_OK) return 0;
    const char *msg = lua_tostring(L, -1);
    if (rc == LUA_ERRMEM)
        ak_fail(err, AK_EXIT_INPUT, "%s: wants more than %d MiB of memory", s->path, MEMORY_MB);
    else
        ak_fail(err, AK_EXIT_INPUT, "%s", msg ? msg : "an error in the handling of an error");
    lua_pop(L, 1);
    return -1;
}

int ak_sandbox_open(struct ak_sandbox *s, const char *path, struct ak_err *err) {
    *s = (struct ak_sandbox){.path = ak_strdup(path), .dir = ak_path_dir(path)};
    s->L = lua_newstate(alloc, s);
    if (!s->L) ak_die(AK_EXIT_IO, "out of memory");
    lua_pushcfunction(s->L, open_all);
    return ak_sandbox_call(s, 0, 0, err);
}

void ak_sandbox_close(struct ak_sandbox *s) {
    lua_close(s->L);
    free(s->path);
    free(s->dir);
}
