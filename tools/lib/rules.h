/* The host of rules: Lua 5.4 without files, clock or network, memory and instructions bounded,
 * random numbers seeded by the host. Data crosses as JSON trees (cJSON): a rule is a function
 * from tables to tables.
 *
 *     struct ak_rules *r = ak_rules_open("rules/rank.lua", &err);
 *     cJSON *plan = ak_rules_call(r, "plan", arg, &err);      (arg stays the caller's)
 */
#ifndef AK_RULES_H
#define AK_RULES_H

#include <cJSON.h>

#include "err.h"

struct ak_rules;

/* Loads a module that returns a table. `require "name"` inside it loads rules/NAME.lua beside it. */
struct ak_rules *ak_rules_open(const char *path, struct ak_err *err);
void ak_rules_close(struct ak_rules *r);
/* Calls function `name` of the module with one argument; returns its one result (caller deletes).
 * A Lua error is AK_EXIT_INPUT with file:line and a traceback. Empty tables become {} unless
 * made with the host's `array{}`. A null is an absent field; numbers that are not finite are
 * json.h's strings on both ways. */
cJSON *ak_rules_call(struct ak_rules *r, const char *name, const cJSON *arg, struct ak_err *err);
/* A field of the module that is not a function, as JSON. */
cJSON *ak_rules_field(struct ak_rules *r, const char *name, struct ak_err *err);

/* Where rules/ (and models/, kernels/) are: $AK_HOME, else two folders above the executable's (build/bin/..). Static string. */
const char *ak_home(void);

#endif
