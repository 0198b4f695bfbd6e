/* The passes of ak_graph_normalise, each over a graph that has been inferred. */
#ifndef AK_NORMALISE_H
#define AK_NORMALISE_H

#include "graph.h"

/* In-place ops become their functional forms (functional.c). */
int ak_functional(struct ak_graph *g, struct ak_err *err);
/* Values that depend on no input become inline constants, and attention masks that say what
 * is_causal or no mask would say go (fold.c). */
void ak_fold(struct ak_graph *g, size_t limit);

/* What the passes share. */
bool ak_op_is(const struct ak_node *n, const char *name);
int ak_arg_value(const struct ak_node *n, const char *arg);                              /* tensor's or integer's value id, or -1 */
const struct ak_val *ak_arg_const(const struct ak_node *n, const char *arg);             /* NULL if it is a value or absent */
int ak_maker(const struct ak_graph *g, int value);                                       /* node, or -1 */
int *ak_new_id(struct ak_graph *g, int id);                                              /* an array of one */
void ak_substitute(struct ak_graph *g, struct ak_node *n, const int *map);               /* args read map[id] instead */
struct ak_node ak_clone_node(struct ak_graph *g, const struct ak_node *n);               /* arrays of its own, no outputs */
/* Drops the nodes that no output needs and the values nobody names. */
void ak_compact(struct ak_graph *g);

#endif
