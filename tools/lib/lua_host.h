/* For those who give rules more than data: a call whose first argument a C function pushes. */
#ifndef AK_LUA_HOST_H
#define AK_LUA_HOST_H

#include <lua.h>

#include "rules.h"

/* push_first is called with `first` as a light userdata and returns the one value to pass. */
cJSON *ak_rules_call_with(struct ak_rules *r, const char *name, lua_CFunction push_first, void *first, const cJSON *arg,
                          struct ak_err *err);

#endif
