/* Shared by pt2.c (archive, weights, signature), pt2_graph.c (nodes) and pt2_args.c (what both are made of). */
#ifndef AK_PT2_READ_H
#define AK_PT2_READ_H

#include <cJSON.h>

#include "graph.h"
#include "names.h"

/* A JSON object whose members are looked up often. */
struct pt2_index {
    struct ak_names names;
    const cJSON **items;
};
int pt2_index_init(struct pt2_index *x, const cJSON *o, const char *what, struct ak_err *err);
const cJSON *pt2_index_get(const struct pt2_index *x, const char *key);
void pt2_index_release(struct pt2_index *x);

/* A TensorMeta. A dimension without a value (no hint) becomes -1; sym, if not NULL, receives the
 * symbol of each dimension or NULL. */
struct pt2_meta {
    struct ak_tensor t;
    const char *sym[AK_MAX_DIMS]; /* borrowed from the JSON: expr_str */
    bool known;                   /* no -1 */
};
int pt2_meta_read(const cJSON *o, struct pt2_meta *m, struct ak_err *err);
/* {"as_int": n}, or {"as_expr": ...} with the value that it had while exporting (-1: none); *expr is NULL or its text. */
int pt2_sym_int(const cJSON *o, int64_t *value, const char **expr, struct ak_err *err);

/* Names within one graph of the file; a graph inside a node (higher-order op) has its own. */
struct pt2_scope {
    struct ak_graph *g;
    struct ak_names values;      /* name -> value id */
    struct pt2_index tensors;    /* tensor_values */
    const cJSON *sym_ints;       /* sym_int_values */
    const char *prefix;          /* of the names of values and nodes: "" or "wrap_1." */
    struct ak_names *node_names; /* shared by all scopes */
    struct ak_err *err;
};
int pt2_scope_init(struct pt2_scope *s, struct ak_graph *g, const cJSON *graph, const char *prefix, struct ak_names *node_names,
                   struct ak_err *err);
void pt2_scope_release(struct pt2_scope *s);
int pt2_scope_add(struct pt2_scope *s, const char *name, int id);
int pt2_scope_find(const struct pt2_scope *s, const char *name, int *id);
int pt2_find_named(const struct pt2_scope *s, const cJSON *o, int *id); /* {"name": ...} */

/* An Argument, fitted to the type that the schema gives it. */
int pt2_arg_read(struct pt2_scope *s, const cJSON *o, const struct ak_op_arg *spec, struct ak_garg *a);
/* Where integers that index something come from: the range of each integer input. */
void pt2_bound_inputs(struct ak_graph *g);

/* Fails with the list of all ops that the set lacks. */
int pt2_check_ops(const cJSON *graph, struct ak_err *err);
/* The nodes that the outputs need, in order. */
int pt2_nodes_read(struct pt2_scope *s, const cJSON *graph);
/* The ids of the tensors that an output Argument names ({as_tensor} or {as_tensors}); returns how many or -1. */
int pt2_output_ids(const struct pt2_scope *s, const cJSON *arg, int *ids, int max);

#endif
