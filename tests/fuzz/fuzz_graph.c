/* Any text as graph.json: what is read is normalised, written, and read again. */
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "json.h"

#include "fuzz.h"
#include "json_mutator.h"

static size_t largest(const struct ak_graph *g) {
    size_t most = 0;
    for (size_t i = 0; i < g->nvalues; i++) {
        int64_t n = ak_extent(&g->values[i].t), numel = ak_numel(&g->values[i].t);
        if (n > 0 && (size_t)n > most) most = (size_t)n;
        if (numel > 0 && (size_t)numel > most) most = (size_t)numel;
    }
    return most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ak_graph g, back;
    struct ak_err err;
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)data[i];
    text[size] = '\0';
    cJSON *o = ak_json_parse(text, size, "fuzz", &err);
    free(text);
    int rc = o ? ak_graph_from_json(&g, o, "fuzz", &err) : -1;
    cJSON_Delete(o);
    if (rc) return 0;
    if (g.nfiles == 0 && largest(&g) < 1 << 16 && ak_graph_normalise(&g, 1 << 16, &err) == 0) {
        o = ak_graph_to_json(&g);
        if (ak_graph_from_json(&back, o, "again", &err)) {
            fprintf(stderr, "what was written is refused: %s\n", err.msg);
            abort();
        }
        ak_graph_release(&back);
        cJSON_Delete(o);
    }
    ak_graph_release(&g);
    return 0;
}
