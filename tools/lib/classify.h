/* The groups that a graph could be covered by, as rules/classify.lua proposes them. */
#ifndef AK_CLASSIFY_H
#define AK_CLASSIFY_H

#include "graph.h"
#include "rules.h"

/* A JSON array of groups (group.h) with `dims`, `dtype` and `why`; NULL on error. */
cJSON *ak_classify(const struct ak_graph *g, struct ak_rules *classify, struct ak_err *err);

#endif
