/* A spec: a kernel type with its dimensions, dtype, attributes, its subgraph and its weight in
 * the model; and the cases a check sweeps, each with arguments and a subgraph of its own.
 *
 * spec.json is written once by ak-extract and read by everything that builds, checks or times a
 * kernel, so that none of these needs the rules or the model. */
#ifndef AK_SPEC_H
#define AK_SPEC_H

#include "ak_kernel.h"
#include "graph.h"

enum ak_draw { /* how check and bench fill an argument */
    AK_DRAW_NORMAL, /* floats: the input family of the case decides */
    AK_DRAW_INT,    /* integers in [lo, hi) */
    AK_DRAW_COS,    /* values within [-1, 1] (cos/sin tables) */
    AK_DRAW_MASK    /* booleans, about 3 of 4 true; or additive 0/-inf */
};

struct ak_spec_arg {
    char *name;
    enum ak_role role; /* AK_ROLE_ABSENT: t is unset */
    struct ak_tensor t;
    enum ak_draw draw;
    int64_t lo, hi;
};

struct ak_case {
    char *stage; /* "smoke", "shapes", "stability", "determinism", "edge"; case 0 is "own", the spec's own shape */
    char *name;  /* "M=1 N=257 K=64", "all equal" */
    char *family; /* the input family: "normal", "large", "tiny", "mixed", "equal", "zeros", "nonfinite" ... */
    struct ak_spec_arg *args; /* as many, in the same order, as the spec */
    const struct ak_graph *graph; /* inputs = the args that are inputs or constants, in order; outputs = the output
                                     args. Cases of one shape share it; the spec owns it */
    double tol;               /* allowed error, relative to the scale that the judge computes (see judge.h) */
};

struct ak_spec {
    char *name; /* the folder's name: "matmul-m128-n512-k256-f32" */
    char *type;
    enum ak_dtype dtype;
    char **dims; /* names; values beside */
    int64_t *dim_values;
    size_t ndims;
    struct ak_attr *attrs;
    size_t nattrs;
    size_t nargs;
    struct ak_case *cases; /* cases[0]: the spec's own shape and its own subgraph */
    size_t ncases;
    struct ak_graph *graphs;
    size_t ngraphs;
    double flops, bytes;   /* of one call, from rules/kernels.lua */
    int64_t calls;         /* in one run of the model */
    char *why_tol;
    struct ak_arena arena;
};

int ak_spec_read(struct ak_spec *s, const char *path, struct ak_err *err); /* spec.json or its folder */
void ak_spec_release(struct ak_spec *s);

#endif
