/* Single nodes as calls of kernels. */
#ifndef AK_LOWER_H
#define AK_LOWER_H

#include "group.h"

/* Node n as one call of the kernel type it is one-to-one with (aten.linear -> matmul): 0 and *out
 * (strings and arrays in a), or 1 where there is none: err->msg says why, if the type is right and
 * the shapes, strides or arguments are not. */
int ak_lower(const struct ak_graph *g, int n, struct ak_group *out, struct ak_arena *a, struct ak_err *err);
/* The same, but an input whose strides no view can make the kernel's has `copy` set. */
int ak_lower_copying(const struct ak_graph *g, int n, struct ak_group *out, struct ak_arena *a, struct ak_err *err);

/* Node n as a call of a kernel for the ATen op itself: the tensor arguments in schema order (an
 * absent one, or one given as a number, is ABSENT; a list in place), then the outputs; all else as
 * attributes of the schema's names, numbers of type Scalar and float as AK_ATTR_REAL. 1 where an
 * argument cannot be said so. */
int ak_lower_aten(const struct ak_graph *g, int n, struct ak_group *out, struct ak_arena *a, struct ak_err *err);

#endif
