/* PyTorch's exported programs (torch.export.save, torch 2.9 or later). */
#ifndef AK_PT2_H
#define AK_PT2_H

#include "graph.h"

struct ak_pt2_options {
    /* Weights that some other tool has compressed are unpacked into this file, except a few small
     * ones, which become part of the graph. NULL: refuse them. */
    const char *spill;
    bool no_data;      /* shapes and types are all that is wanted: unpack nothing */
    bool spilled;      /* set: the file has been written */
    char warning[512]; /* set to what the user should know, or left empty */
};

/* Fills g with the graph as it was exported, dynamic dimensions at their hints; not normalised.
 * Every op must be in the op set, and every shape that inference finds the one that torch found. */
int ak_pt2_read(struct ak_graph *g, const char *path, struct ak_pt2_options *opt, struct ak_err *err);

#endif
