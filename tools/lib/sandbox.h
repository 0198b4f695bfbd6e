/* A Lua state for code that is not trusted with the machine: no io, os, debug, package or load;
 * memory, instructions and time bounded; the same input gives the same answer. Beside Lua's own
 * pure functions it has
 *
 *     require "name"      NAME.lua beside the first file, loaded once
 *     array{...}          a table that is a JSON array even when empty
 *     pairs, next         in the order of the keys: booleans, numbers, strings
 *     print               to standard error
 */
#ifndef AK_SANDBOX_H
#define AK_SANDBOX_H

#include <lua.h>
#include <stddef.h>

#include "err.h"

struct ak_sandbox {
    lua_State *L;
    char *path, *dir; /* the first file, and where its modules are */
    size_t memory;
    long looks; /* of the hook, since the call began */
    double began_s;
};

int ak_sandbox_open(struct ak_sandbox *s, const char *path, struct ak_err *err);
void ak_sandbox_close(struct ak_sandbox *s);
struct ak_sandbox *ak_sandbox_of(lua_State *L);

/* Calls the function below the nargs arguments on top of the stack, under the limits, with fresh
 * random numbers. An error is AK_EXIT_INPUT with file:line and a traceback; the stack is then as
 * before the function was pushed. */
int ak_sandbox_call(struct ak_sandbox *s, int nargs, int nresults, struct ak_err *err);

/* Loads the text (never bytecode) of a Lua file onto the stack; raises. */
void ak_sandbox_load(lua_State *L, const char *path);

/* Whether array{} or a JSON array made the table; and makes it so. */
int ak_sandbox_is_array(lua_State *L, int at);
void ak_sandbox_mark_array(lua_State *L); /* the table on top */

#endif
