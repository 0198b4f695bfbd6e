// Knobs: the `#define`s of a kernel that a search may turn.
//
//     #define MC 96   /* knob tier=1 values=24,48,96,192 : rows of A in a packed block */
//     /* constraint MC % MR == 0 : whole register tiles */
//
// A source is also known without its comments and blank space (stripped), and so without the
// ranges of its knobs; and as a base: stripped, with the values of the knobs blanked, so that all
// settings of one kernel share it.
#ifndef AK_KNOB_H
#define AK_KNOB_H

#include <cJSON.h>
#include <stddef.h>

#include "err.h"
#include "mem.h"

struct ak_knob {
    char *name, *value, *why;
    int tier; /* 1..6 */
    char **values;
    size_t nvalues;
    size_t at, len; /* where the value stands in the source */
};

struct ak_knobs {
    struct ak_knob *knobs;
    size_t n, cap;
    char **constraints;
    size_t nconstraints, cap_constraints;
    struct ak_arena arena;
};

/* A knob line that is not of the form, has no values, lacks its own value among them or repeats a
 * name is AK_EXIT_INPUT with `name`:line. */
int ak_knobs_parse(struct ak_knobs *k, const char *source, const char *name, struct ak_err *err);
void ak_knobs_release(struct ak_knobs *k);
const struct ak_knob *ak_knobs_find(const struct ak_knobs *k, const char *name);

/* The source with the values of {"NAME": "value" or number, ...} put in; caller frees. A name that
 * is no knob, or a value outside its list, is an error. */
char *ak_knobs_apply(const struct ak_knobs *k, const char *source, const cJSON *values, struct ak_err *err);

/* Caller frees. */
char *ak_source_strip(const char *source);
char *ak_source_base(const struct ak_knobs *k, const char *source);

/* {"knobs": [{name, tier, value, values, why}], "constraints": [...]} for the rules. Values that are integers are numbers. */
cJSON *ak_knobs_to_json(const struct ak_knobs *k);
/* {"NAME": value}. */
cJSON *ak_knobs_values(const struct ak_knobs *k);

#endif
