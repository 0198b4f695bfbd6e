/* The profile of a graph: the time of every node and of every group that could hold some, each
 * distinct call timed once. */
#ifndef AK_PROFILE_H
#define AK_PROFILE_H

#include <stdio.h>

#include "ceilings.h"
#include "graph.h"
#include "rules.h"

struct ak_profile_options {
    const char *graph_path; /* recorded in the header */
    const char *vendor_dir;
    struct ak_rules *classify, *kernels;
    const struct ak_ceilings *ceilings;
    int runs;
    double budget_us; /* for one distinct call */
    void (*progress)(size_t done, size_t of, const char *what); /* may be NULL */
};

/* Writes profile.jsonl (format "ak-profile", version 1): docs/formats.md. */
int ak_profile_write(const struct ak_graph *g, const struct ak_profile_options *opt, FILE *f, struct ak_err *err);

#endif
