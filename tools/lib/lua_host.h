/* For those who give rules more than data: a call whose first argument a C function pushes. */
#ifndef AK_LUA_HOST_H
#define AK_LUA_HOST_H

#include <lua.h>

#include "rules.h"

/* Calls function `name` with what push_first pushes (it gets `first` as a light userdata and
 * returns one value) and arg. What the function returns is dropped. 0 or -1. */
int ak_rules_run(struct ak_rules *r, const char *name, lua_CFunction push_first, void *first, const cJSON *arg, struct ak_err *err);

#endif
