/* The plan: what of a profile is worth doing, as rules/rank.lua sees it. */
#ifndef AK_PLAN_H
#define AK_PLAN_H

#include <cJSON.h>
#include <stdio.h>

#include "err.h"
#include "rules.h"

/* plan.json (format "ak-plan", version 1) from a profile.jsonl path or "-". NULL on error. */
cJSON *ak_plan_make(const char *profile_path, struct ak_rules *rank, struct ak_err *err);
cJSON *ak_plan_read(const char *path, struct ak_err *err);
/* A table for people. */
int ak_plan_print(const cJSON *plan, FILE *f, struct ak_err *err);

#endif
