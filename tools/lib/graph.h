/* A graph: a model's ATen ops as a DAG in topological order.
 *
 * Values are named tensors: graph inputs, weights (bytes in a file, or random, or inline
 * constants) and node outputs. Nodes are single static assignment and, after import, functional.
 * Every value has a concrete shape: symbolic dimensions are bound to their hints at import and
 * can be bound anew with ak_graph_bind, which re-infers everything.
 */
#ifndef AK_GRAPH_H
#define AK_GRAPH_H

#include <cJSON.h>
#include <stdio.h>

#include "mem.h"
#include "op.h"
#include "tensor.h"

enum ak_value_kind {
    AK_VALUE_NODE,   /* output `index` of node `node` */
    AK_VALUE_INPUT,  /* given by the caller */
    AK_VALUE_FILE,   /* a weight: bytes of the storage at file `file`, from `at`, `bytes` long */
    AK_VALUE_RANDOM, /* a weight of seeded random numbers (rand.h): normal(mean, std) */
    AK_VALUE_INLINE, /* a constant: bytes in the graph itself */
    AK_VALUE_INT     /* an integer computed by a sym op: ival, no tensor */
};

struct ak_value {
    char *name;
    enum ak_value_kind kind;
    struct ak_tensor t; /* data NULL; for FILE and INLINE strides and offset are relative to the storage */
    int node, index;    /* NODE, INT: who makes it */
    /* 0, or 1 + the id of the value whose storage this one views */
    int view_of;
    int file; /* FILE: index into files */
    int64_t at, bytes; /* FILE: byte range of the storage; INLINE: bytes */
    uint64_t seed;     /* RANDOM */
    double mean, std;  /* RANDOM */
    void *data;        /* INLINE */
    int64_t ival;      /* INT */
    /* INPUT: how to draw it when the user gives none: floats normal(0,1); integers in [lo, hi) */
    int64_t lo, hi;
    char *sym[AK_MAX_DIMS]; /* INPUT: symbol of each dimension or NULL */
};

enum ak_garg_kind {
    AK_GARG_CONST,  /* val: everything but tensors, with no symbols in it */
    AK_GARG_VALUE,  /* one value id (a tensor, or an AK_VALUE_INT) */
    AK_GARG_VALUES, /* Tensor[] / Tensor?[]: ids, -1 for an absent entry */
    AK_GARG_SYMINTS /* int[] some of which are values: ids[i] >= 0 is a value, else val.ints.v[i] */
};

struct ak_garg {
    enum ak_garg_kind kind;
    struct ak_val val; /* CONST and SYMINTS; arrays and strings live in the graph's arena */
    int *ids;          /* VALUE: ids[0] */
    size_t n;
};

struct ak_node {
    char *name;
    const struct ak_op *op;
    struct ak_garg *args; /* op->nargs of them, schema order, defaults filled in */
    int *outs;            /* value ids; -1 for an output nobody named */
    size_t nouts;
    char *origin; /* where in the model: "model.layers.0.mlp" or "" */
};

struct ak_symbol {
    char *name;
    int64_t value, min, max;
};

struct ak_graph {
    char *name;   /* "llama-mini" */
    char *source; /* the path or model that was imported */
    struct ak_value *values;
    size_t nvalues, cap_values;
    struct ak_node *nodes;
    size_t nnodes, cap_nodes;
    int *inputs, *outputs; /* value ids */
    size_t ninputs, noutputs;
    char **files; /* weight files, absolute or relative to the working directory */
    size_t nfiles;
    struct ak_symbol *symbols;
    size_t nsymbols;
    struct ak_arena arena; /* owns every string and array above but values and nodes */
};

void ak_graph_init(struct ak_graph *g);
void ak_graph_release(struct ak_graph *g);

/* Building. Names are copied; ids are returned. */
int ak_graph_add_value(struct ak_graph *g, const char *name, enum ak_value_kind kind, struct ak_tensor t);
/* Appends a node with all arguments at their defaults and no outputs yet. */
int ak_graph_add_node(struct ak_graph *g, const struct ak_op *op, const char *name);
/* Infers the outputs of node n (symbols and INT values resolved) and adds or updates its output values. */
int ak_graph_infer(struct ak_graph *g, int n, struct ak_err *err);
/* The call of node n with argument tensors of `tensors[value id]` (NULL: the values' own, no
 * data). The call borrows from g and from *scratch. */
int ak_graph_call(const struct ak_graph *g, int n, const struct ak_tensor *tensors, struct ak_arena *scratch,
                  struct ak_opcall *call, struct ak_err *err);

/* Gives symbols new values (inputs' shapes) and re-infers. `shapes` has ninputs tensors of
 * which dtype and shape are read. */
int ak_graph_bind(struct ak_graph *g, const struct ak_tensor *shapes, struct ak_err *err);

/* Functional form, dead nodes dropped, constants folded (results up to limit bytes each),
 * attention masks that are causal or all true recognised by value. See normalise.c. */
int ak_graph_normalise(struct ak_graph *g, size_t fold_limit, struct ak_err *err);

/* For each value the nodes that read it; -1-terminated lists, freed with one free(). Graph
 * outputs are not in it. */
int **ak_graph_users(const struct ak_graph *g);

/* graph.json (format "ak-graph", version 1): docs/formats.md. */
int ak_graph_read(struct ak_graph *g, const char *path, struct ak_err *err); /* a path or "-" */
int ak_graph_write(const struct ak_graph *g, FILE *f);
cJSON *ak_graph_to_json(const struct ak_graph *g);
int ak_graph_from_json(struct ak_graph *g, const cJSON *o, const char *name, struct ak_err *err);

#endif
