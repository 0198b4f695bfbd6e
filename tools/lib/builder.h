/* A Lua vocabulary that builds a graph of ATen ops. A rule or a model gets `g`:
 *
 *     g:input("ids", "i64", {1, 128}, {lo = 0, hi = 32000})   -> value
 *     g:weight("lm_head.weight", {32000, 256}, {std = 0.02})  -> value (seeded random numbers)
 *     g:op("aten.linear", {x, w, bias = b})                   -> one value an output
 *     g:output(y)
 *     g.origin = "layers.0.mlp"                               -- the nodes that follow belong there
 *
 * and a value has shape, dtype, ndim and name. Arguments are positional or by the schema's names.
 */
#ifndef AK_BUILDER_H
#define AK_BUILDER_H

#include "graph.h"
#include "rules.h"

/* Calls fn(g, arg) of the module and leaves what it built in *g, which is initialised. */
int ak_build_graph(struct ak_rules *r, const char *fn, const cJSON *arg, struct ak_graph *g, struct ak_err *err);

/* Builds a model file: a module {name, inputs = {cpu = {1, 128}}, dtype = {cpu = "f32"}, build = function(g, opt) end} where opt is
 * {shape, dtype, device}. input ("1,128") and dtype may be NULL: the model's own for the device. */
int ak_model_lua(struct ak_graph *g, const char *path, const char *input, const char *dtype, const char *device, struct ak_err *err);

#endif
