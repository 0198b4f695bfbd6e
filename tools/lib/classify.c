/* The graph as the rules see it: ids are 1-based indices, arguments are {name, v | vs | c}. */
#include "classify.h"

#include <stdlib.h>

#include "group.h"
#include "json.h"
#include "lower.h"

static cJSON *constant(const struct ak_val *v) {
    switch (v->kind) {
    case AK_VAL_INT: return ak_json_new_i64(v->i);
    case AK_VAL_FLOAT: return ak_json_new_num(v->f);
    case AK_VAL_BOOL: return cJSON_CreateBool(v->i != 0);
    case AK_VAL_STR: return cJSON_CreateString(v->s);
    case AK_VAL_INTS: return ak_json_i64_array(v->ints.v, v->ints.n);
    case AK_VAL_FLOATS: return cJSON_CreateDoubleArray(v->floats.v, (int)v->floats.n);
    default: return NULL;
    }
}

static cJSON *argument(const struct ak_graph *g, const struct ak_garg *a, const char *name) {
    cJSON *o = cJSON_CreateObject(), *c = NULL;
    cJSON_AddStringToObject(o, "name", name);
    if (a->kind == AK_GARG_VALUE && g->values[a->ids[0]].kind == AK_VALUE_INT) {
        c = ak_json_new_i64(g->values[a->ids[0]].ival);
    } else if (a->kind == AK_GARG_VALUE) {
        ak_json_add_i64(o, "v", a->ids[0] + 1);
    } else if (a->kind == AK_GARG_VALUES) {
        cJSON *vs = cJSON_AddArrayToObject(o, "vs");
        for (size_t i = 0; i < a->n; i++)
            cJSON_AddItemToArray(vs, ak_json_new_i64(a->ids[i] + 1));
    } else {
        c = constant(&a->val);
    }
    if (c) cJSON_AddItemToObject(o, "c", c);
    return o;
}

static cJSON *value(const struct ak_graph *g, size_t id, const int *users, bool output) {
    const struct ak_value *v = &g->values[id];
    cJSON *o = cJSON_CreateObject();
    ak_json_add_i64(o, "id", (int64_t)id + 1);
    cJSON_AddStringToObject(o, "name", v->name);
    if (v->kind != AK_VALUE_INT) ak_tensor_to_json(o, &v->t);
    if (v->kind == AK_VALUE_NODE || v->kind == AK_VALUE_INT) ak_json_add_i64(o, "node", v->node + 1);
    cJSON_AddBoolToObject(o, "constant", v->kind == AK_VALUE_FILE || v->kind == AK_VALUE_RANDOM || v->kind == AK_VALUE_INLINE);
    if (v->kind == AK_VALUE_INLINE && ak_numel(&v->t) == 1) ak_json_add_num(o, "scalar", ak_load(v->t.dtype, v->data, v->t.offset));
    cJSON_AddBoolToObject(o, "output", output);
    cJSON *list = cJSON_AddArrayToObject(o, "users");
    for (; *users >= 0; users++)
        cJSON_AddItemToArray(list, ak_json_new_i64(*users + 1));
    return o;
}

/* Adds "lowered": the one kernel call that does node n, if there is one. */
static int add_lowered(const struct ak_graph *g, int n, cJSON *o, struct ak_err *err) {
    struct ak_arena arena = {0};
    struct ak_group group;
    int rc = ak_lower(g, n, &group, &arena, err);
    if (rc == 0) cJSON_AddItemToObject(o, "lowered", ak_group_to_json(g, &group));
    ak_arena_release(&arena);
    return rc < 0 ? -1 : 0;
}

static int node(const struct ak_graph *g, int n, cJSON *list, struct ak_err *err) {
    const struct ak_node *node = &g->nodes[n];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(list, o);
    ak_json_add_i64(o, "id", n + 1);
    cJSON_AddStringToObject(o, "name", node->name);
    cJSON_AddStringToObject(o, "op", node->op->name);
    cJSON *args = cJSON_AddArrayToObject(o, "args"), *outs = cJSON_AddArrayToObject(o, "outs");
    for (size_t i = 0; i < node->op->nargs; i++)
        cJSON_AddItemToArray(args, argument(g, &node->args[i], node->op->args[i].name));
    for (size_t i = 0; i < node->nouts; i++)
        if (node->outs[i] >= 0) cJSON_AddItemToArray(outs, ak_json_new_i64(node->outs[i] + 1));
    return add_lowered(g, n, o, err);
}

cJSON *ak_classify(const struct ak_graph *g, struct ak_rules *classify, struct ak_err *err) {
    cJSON *o = cJSON_CreateObject(), *values = cJSON_AddArrayToObject(o, "values"), *nodes = cJSON_AddArrayToObject(o, "nodes");
    int **users = ak_graph_users(g);
    bool *output = ak_calloc(g->nvalues + 1, sizeof *output);
    for (size_t i = 0; i < g->noutputs; i++)
        output[g->outputs[i]] = true;
    for (size_t i = 0; i < g->nvalues; i++)
        cJSON_AddItemToArray(values, value(g, i, users[i], output[i]));
    int rc = 0;
    for (size_t i = 0; i < g->nnodes && rc == 0; i++)
        rc = node(g, (int)i, nodes, err);
    cJSON *groups = rc ? NULL : ak_rules_call(classify, "groups", o, err);
    free(users);
    free(output);
    cJSON_Delete(o);
    return groups;
}
