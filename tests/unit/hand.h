/* Graphs and kernels made by hand, for the tests of what runs them. */
#ifndef HAND_H
#define HAND_H

#pragma GCC diagnostic ignored "-Wunused-function" /* each test takes what it needs */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec.h"
#include "file.h"

static struct ak_err err;
static char dir[] = "/tmp/hand.XXXXXX";

static void must(bool good, const char *what) {
    if (good) return;
    printf("Bail out! %s: %s\n", what, err.msg);
    exit(1);
}

static void make_dir(void) { must(mkdtemp(dir) != NULL, "mkdtemp"); }

static void remove_dir(void) {
    char *cmd = ak_asprintf("rm -rf '%s'", dir);
    if (system(cmd)) perror(cmd);
    free(cmd);
}

static void compile(const char *source, const char *name, const char *flags) {
    const char *cc = getenv("CC");
    char *cmd = ak_asprintf("%s -std=gnu11 -O1 %s -fPIC -shared -Ikernels -o %s/%s tests/kernels/%s", cc ? cc : "cc", flags, dir, name, source);
    must(system(cmd) == 0, cmd);
    free(cmd);
}

static int value(struct ak_graph *g, const char *name, enum ak_value_kind kind, int ndim, const int64_t *shape) {
    int id = ak_graph_add_value(g, name, kind, ak_tensor_new(AK_F32, ndim, shape));
    g->values[id].std = 1;
    g->values[id].seed = (uint64_t)id + 1;
    return id;
}

static int input(struct ak_graph *g, const char *name, int64_t rows, int64_t cols) {
    int id = value(g, name, AK_VALUE_INPUT, 2, (int64_t[]){rows, cols});
    int *list = ak_arena_alloc(&g->arena, (g->ninputs + 1) * sizeof *list);
    if (g->ninputs) memcpy(list, g->inputs, g->ninputs * sizeof *list);
    list[g->ninputs++] = id;
    g->inputs = list;
    return id;
}

static void outputs(struct ak_graph *g, size_t n, const int *ids) {
    g->outputs = ak_arena_alloc(&g->arena, n * sizeof *ids);
    memcpy(g->outputs, ids, n * sizeof *ids);
    g->noutputs = n;
}

static void set_value(struct ak_graph *g, int n, size_t i, int id) {
    int *ids = ak_arena_alloc(&g->arena, sizeof *ids);
    *ids = id;
    g->nodes[n].args[i] = (struct ak_garg){.kind = AK_GARG_VALUE, .ids = ids, .n = 1};
}

/* A node of up to three tensor operands; its output. */
static int node(struct ak_graph *g, const char *op, const char *name, int a, int b, int c) {
    must(ak_op_find(op) != NULL, op);
    int n = ak_graph_add_node(g, ak_op_find(op), name), operands[] = {a, b, c};
    for (size_t i = 0; i < 3; i++)
        if (operands[i] >= 0) set_value(g, n, i, operands[i]);
    must(ak_graph_infer(g, n, &err) == 0, name);
    return g->nodes[n].outs[0];
}

static int transpose(struct ak_graph *g, const char *name, int a) {
    int n = ak_graph_add_node(g, ak_op_find("aten.transpose.int"), name);
    set_value(g, n, 0, a);
    for (size_t i = 1; i < 3; i++)
        g->nodes[n].args[i] = (struct ak_garg){.kind = AK_GARG_CONST, .val = {.kind = AK_VAL_INT, .i = (int64_t)i - 1}};
    must(ak_graph_infer(g, n, &err) == 0, name);
    return g->nodes[n].outs[0];
}

/* m = x*y, s = m + z, r = relu(s), q = r + x */

static int group_values[6];

static void group_model(struct ak_graph *g) {
    ak_graph_init(g);
    g->name = "grouped";
    int *v = group_values;
    v[0] = input(g, "x", 3, 5), v[1] = input(g, "y", 3, 5), v[2] = input(g, "z", 3, 5);
    int m = node(g, "aten.mul.Tensor", "mul", v[0], v[1], -1);
    int s = node(g, "aten.add.Tensor", "add", m, v[2], -1);
    v[3] = m, v[4] = s;
    int r = node(g, "aten.relu.default", "relu", s, -1, -1);
    v[5] = node(g, "aten.add.Tensor", "add_1", r, v[0], -1);
    outputs(g, 1, &v[5]);
}

#endif
