/* Groups: nodes of a graph that one kernel can replace, with the kernel's arguments as views of
 * graph values; and the JSON form that profile.jsonl, plan.json and spec.json share:
 *
 *     {"type": "rmsnorm", "nodes": ["pow_1", ...], "attrs": {"eps": {"real": 1e-5}},
 *      "args": [{"name": "x", "role": "input", "value": "add_3", "shape": [128, 256], "stride": [256, 1], "offset": 0},
 *               {"name": "residual", "role": "absent"}, ...]}
 *
 * Attributes are typed: {"int": 1}, {"real": 0.5}, {"bool": true}, {"ints": [1, 2]}, {"enum": "sum"}.
 */
#ifndef AK_GROUP_H
#define AK_GROUP_H

#include "ak_kernel.h"
#include "graph.h"

struct ak_group_arg {
    char *name;
    enum ak_role role;
    int value;          /* graph value id; -1 if absent */
    struct ak_tensor t; /* shape, stride, offset over that value's storage */
    bool copy;          /* t is over a row-major copy of the value instead, made before each call (lower.h) */
};
struct ak_group {
    char *type; /* kernel type, or an ATen op for a single node */
    char *spec; /* the spec's name (folder) */
    int *nodes;
    size_t nnodes;
    struct ak_group_arg *args;
    size_t nargs;
    struct ak_attr *attrs;
    size_t nattrs;
    const char *kernel; /* path of the .so to use, or NULL: the opponent for `type` */
};

/* Reads one group of g; strings and arrays come from the arena. Checks that nodes and values
 * exist and that every view lies inside its value's storage. */
int ak_group_from_json(struct ak_group *group, const struct ak_graph *g, const cJSON *o, struct ak_arena *arena,
                       struct ak_err *err);
cJSON *ak_group_to_json(const struct ak_graph *g, const struct ak_group *group);
int ak_attrs_from_json(const cJSON *o, struct ak_arena *arena, struct ak_attr **attrs, size_t *n, struct ak_err *err);
cJSON *ak_attrs_to_json(const struct ak_attr *attrs, size_t n);
const char *ak_role_name(enum ak_role role); /* "absent", "input", "constant", "output", "inout" */
int ak_role_from_name(const char *name);     /* -1 if there is none */
/* shape, stride, offset, dtype of a tensor as fields of o, and back. */
void ak_tensor_to_json(cJSON *o, const struct ak_tensor *t);
int ak_tensor_from_json(const cJSON *o, struct ak_tensor *t, struct ak_err *err);

/* The value whose storage v lies in (v itself unless it is a view), and how many elements of its
 * dtype that storage holds. */
int ak_value_root(const struct ak_graph *g, int v);
int64_t ak_value_extent(const struct ak_graph *g, int v);

#endif
