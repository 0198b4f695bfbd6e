/* What integer inputs may hold, so that inputs can be drawn: less than the dimension they index. */
#include <stdlib.h>
#include <string.h>

#include "pt2_read.h"

/* The dimension of the tensor that integers read through `arg` of `node` index, or 0. */
static int64_t indexed_size(const struct ak_graph *g, const struct ak_node *node, int value) {
    static const struct {
        const char *op, *index, *of;
        int dim; /* -1: argument 'dim' */
    } readers[] = {{"aten.embedding.default", "indices", "weight", 0},
                   {"aten.gather.default", "index", "self", -1},
                   {"aten.index_select.default", "index", "self", -1},
                   {"aten.cross_entropy_loss.default", "target", "self", 1},
                   {"aten.nll_loss.default", "target", "self", 1},
                   {"aten.nll_loss_nd.default", "target", "self", 1}};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (strcmp(node->op->name, readers[i].op)) continue;
        int index = ak_op_arg_index(node->op, readers[i].index), of = ak_op_arg_index(node->op, readers[i].of);
        int dim = ak_op_arg_index(node->op, "dim");
        if (index < 0 || of < 0 || node->args[index].kind != AK_GARG_VALUE || node->args[index].ids[0] != value) return 0;
        if (node->args[of].kind != AK_GARG_VALUE) return 0;
        const struct ak_tensor *t = &g->values[node->args[of].ids[0]].t;
        int64_t d = readers[i].dim >= 0 ? readers[i].dim : dim >= 0 ? node->args[dim].val.i : 0;
        if (d < 0) d += t->ndim;
        if (t->ndim == 1 && readers[i].dim == 1) d = 0;
        return d >= 0 && d < t->ndim ? t->shape[d] : 0;
    }
    return 0;
}

static void follow(const struct ak_graph *g, int **users, int value, int depth, int64_t *hi) {
    for (const int *u = users[value]; *u >= 0; u++) {
        const struct ak_node *n = &g->nodes[*u];
        int64_t size = indexed_size(g, n, value);
        if (size > 0 && (*hi == 0 || size < *hi)) *hi = size;
        bool same = n->op->flags & AK_OP_VIEW || strncmp(n->op->name, "aten.to.", 8) == 0;
        if (same && depth && n->nouts && n->outs[0] >= 0 && g->values[n->outs[0]].kind == AK_VALUE_NODE)
            follow(g, users, n->outs[0], depth - 1, hi);
    }
}

void pt2_bound_inputs(struct ak_graph *g) {
    int **users = ak_graph_users(g);
    for (size_t i = 0; i < g->ninputs; i++) {
        struct ak_value *v = &g->values[g->inputs[i]];
        int64_t hi = 0;
        if (ak_dtype_is_float(v->t.dtype) || v->t.dtype == AK_BOOL) continue;
        follow(g, users, g->inputs[i], 4, &hi);
        if (hi) v->hi = hi;
    }
    free(users);
}
