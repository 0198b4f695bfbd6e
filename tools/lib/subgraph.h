/* A group cut out of its model as a graph of its own: the truth of a spec at its own shape. */
#ifndef AK_SUBGRAPH_H
#define AK_SUBGRAPH_H

#include "graph.h"
#include "group.h"

/* out's inputs are the group's input and constant arguments in order, laid out as the arguments
 * are (offset 0); its outputs are the output arguments. Integer values become constants, inline
 * constants are copied. out borrows names and arrays from g, which must outlive it. */
int ak_subgraph(const struct ak_graph *g, const struct ak_group *group, struct ak_graph *out, struct ak_err *err);

#endif
