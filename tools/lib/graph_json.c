/* Writing graph.json. Arguments that hold their default are left out; values are named, in the order
 * of their ids; what inference finds is written too, for other readers. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "graph_json.h"
#include "group.h"
#include "json.h"

/* ---- values of few digits and many ---- */

static char *encode(const uint8_t *p, size_t n) {
    char *text = ak_malloc(n / 3 * 4 + 5), *o = text;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t w = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        *o++ = ak_base64[w >> 18];
        *o++ = ak_base64[w >> 12 & 63];
        *o++ = left > 1 ? ak_base64[w >> 6 & 63] : '=';
        *o++ = left > 2 ? ak_base64[w & 63] : '=';
    }
    *o = '\0';
    return text;
}

/* Integers that a double cannot hold are strings, but for the two that stand for no end. */
static cJSON *whole(int64_t v) {
    if (v == INT64_MAX || v == INT64_MIN || (v > -(1LL << 53) && v < 1LL << 53)) return ak_json_new_i64(v);
    char buf[32];
    snprintf(buf, sizeof buf, "%lld", (long long)v);
    return cJSON_CreateString(buf);
}

/* ---- arguments ---- */

static bool is_dtype(const struct ak_op_arg *spec) { return strncmp(spec->type, "ScalarType", 10) == 0; }

static cJSON *ints_json(const struct ak_graph *g, const struct ak_garg *a) {
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < a->val.ints.n; i++) {
        int id = a->kind == AK_GARG_SYMINTS ? a->ids[i] : -1;
        cJSON_AddItemToArray(list, id >= 0 ? cJSON_CreateString(g->values[id].name) : whole(a->val.ints.v[i]));
    }
    return list;
}

static cJSON *const_json(const struct ak_graph *g, const struct ak_garg *a, const struct ak_op_arg *spec) {
    const struct ak_val *v = &a->val;
    if (v->kind == AK_VAL_NONE) return cJSON_CreateNull();
    cJSON *o = cJSON_CreateObject();
    switch (v->kind) {
    case AK_VAL_INT:
        if (is_dtype(spec) && v->i >= 0 && v->i < AK_DTYPE_COUNT)
            cJSON_AddStringToObject(o, "dtype", ak_dtype_name((enum ak_dtype)v->i));
        else
            cJSON_AddItemToObject(o, "int", whole(v->i));
        break;
    case AK_VAL_FLOAT: ak_json_add_num(o, "real", v->f); break;
    case AK_VAL_BOOL: cJSON_AddBoolToObject(o, "bool", v->i != 0); break;
    case AK_VAL_STR: cJSON_AddStringToObject(o, "str", v->s); break;
    case AK_VAL_INTS: cJSON_AddItemToObject(o, "ints", ints_json(g, a)); break;
    case AK_VAL_FLOATS: {
        cJSON *list = cJSON_AddArrayToObject(o, "reals");
        for (size_t i = 0; i < v->floats.n; i++)
            cJSON_AddItemToArray(list, ak_json_new_num(v->floats.v[i]));
        break;
    }
    default: break;
    }
    return o;
}

static cJSON *arg_json(const struct ak_graph *g, const struct ak_garg *a, const struct ak_op_arg *spec) {
    if (a->kind == AK_GARG_CONST || a->kind == AK_GARG_SYMINTS) return const_json(g, a, spec);
    cJSON *o = cJSON_CreateObject();
    if (a->kind == AK_GARG_VALUE) {
        cJSON_AddStringToObject(o, "v", g->values[a->ids[0]].name);
        return o;
    }
    cJSON *list = cJSON_AddArrayToObject(o, "vs");
    for (size_t i = 0; i < a->n; i++)
        cJSON_AddItemToArray(list, a->ids[i] < 0 ? cJSON_CreateNull() : cJSON_CreateString(g->values[a->ids[i]].name));
    return o;
}

static bool same_val(const struct ak_val *a, const struct ak_val *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case AK_VAL_NONE: return true;
    case AK_VAL_INT:
    case AK_VAL_BOOL: return a->i == b->i;
    case AK_VAL_FLOAT: return a->f == b->f;
    case AK_VAL_STR: return strcmp(a->s, b->s) == 0;
    case AK_VAL_INTS: return a->ints.n == b->ints.n && (!a->ints.n || memcmp(a->ints.v, b->ints.v, a->ints.n * sizeof *a->ints.v) == 0);
    default: return false;
    }
}

static bool is_default(const struct ak_garg *a, const struct ak_op_arg *spec) {
    return a->kind == AK_GARG_CONST && spec->has_default && same_val(&a->val, &spec->def);
}

/* ---- nodes, values, the whole ---- */

static cJSON *node_json(const struct ak_graph *g, const struct ak_node *n) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", n->name);
    cJSON_AddStringToObject(o, "op", n->op->name);
    cJSON *args = cJSON_AddObjectToObject(o, "args");
    for (size_t i = 0; i < n->op->nargs; i++)
        if (!is_default(&n->args[i], &n->op->args[i]))
            cJSON_AddItemToObject(args, n->op->args[i].name, arg_json(g, &n->args[i], &n->op->args[i]));
    cJSON *outs = cJSON_AddArrayToObject(o, "outs");
    for (size_t i = 0; i < n->nouts; i++)
        cJSON_AddItemToArray(outs, n->outs[i] < 0 ? cJSON_CreateNull() : cJSON_CreateString(g->values[n->outs[i]].name));
    if (n->origin && *n->origin) cJSON_AddStringToObject(o, "origin", n->origin);
    return o;
}

static void input_json(cJSON *o, const struct ak_value *v) {
    if (!ak_dtype_is_float(v->t.dtype)) {
        cJSON_AddItemToObject(o, "lo", whole(v->lo));
        cJSON_AddItemToObject(o, "hi", whole(v->hi));
    }
    bool symbolic = false;
    for (int d = 0; d < v->t.ndim; d++)
        symbolic |= v->sym[d] != NULL;
    if (!symbolic) return;
    cJSON *sym = cJSON_AddArrayToObject(o, "sym");
    for (int d = 0; d < v->t.ndim; d++)
        cJSON_AddItemToArray(sym, v->sym[d] ? cJSON_CreateString(v->sym[d]) : cJSON_CreateNull());
}

static cJSON *value_json(const struct ak_graph *g, const struct ak_value *v) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", v->name);
    cJSON_AddStringToObject(o, "kind", ak_value_kinds[v->kind]);
    if (v->kind == AK_VALUE_INT) {
        cJSON_AddItemToObject(o, "value", whole(v->ival));
        return o;
    }
    ak_tensor_to_json(o, &v->t);
    if (v->view_of) cJSON_AddStringToObject(o, "view_of", g->values[v->view_of - 1].name);
    if (v->kind == AK_VALUE_INPUT) input_json(o, v);
    if (v->kind == AK_VALUE_FILE) {
        ak_json_add_i64(o, "file", v->file);
        ak_json_add_i64(o, "at", v->at);
        ak_json_add_i64(o, "bytes", v->bytes);
    }
    if (v->kind == AK_VALUE_RANDOM) {
        char seed[32];
        snprintf(seed, sizeof seed, "%016llx", (unsigned long long)v->seed);
        cJSON_AddStringToObject(o, "seed", seed);
        ak_json_add_num(o, "mean", v->mean);
        ak_json_add_num(o, "std", v->std);
    }
    if (v->kind == AK_VALUE_INLINE) {
        char *text = encode(v->data, (size_t)v->bytes);
        cJSON_AddStringToObject(o, "data", text);
        free(text);
    }
    return o;
}

static void names_json(cJSON *o, const char *key, const struct ak_graph *g, const int *ids, size_t n) {
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(g->values[ids[i]].name));
}

static void symbols_json(cJSON *o, const struct ak_graph *g) {
    if (!g->nsymbols) return;
    cJSON *list = cJSON_AddArrayToObject(o, "symbols");
    for (size_t i = 0; i < g->nsymbols; i++) {
        cJSON *s = cJSON_CreateObject();
        cJSON_AddItemToArray(list, s);
        cJSON_AddStringToObject(s, "name", g->symbols[i].name);
        cJSON_AddItemToObject(s, "value", whole(g->symbols[i].value));
        cJSON_AddItemToObject(s, "min", whole(g->symbols[i].min));
        cJSON_AddItemToObject(s, "max", whole(g->symbols[i].max));
    }
}

cJSON *ak_graph_to_json(const struct ak_graph *g) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", "ak-graph");
    cJSON_AddNumberToObject(o, "version", 1);
    cJSON_AddStringToObject(o, "name", g->name ? g->name : "");
    cJSON_AddStringToObject(o, "source", g->source ? g->source : "");
    cJSON *files = cJSON_AddArrayToObject(o, "files");
    for (size_t i = 0; i < g->nfiles; i++)
        cJSON_AddItemToArray(files, cJSON_CreateString(g->files[i]));
    symbols_json(o, g);
    names_json(o, "inputs", g, g->inputs, g->ninputs);
    names_json(o, "outputs", g, g->outputs, g->noutputs);
    cJSON *values = cJSON_AddArrayToObject(o, "values"), *nodes = cJSON_AddArrayToObject(o, "nodes");
    for (size_t i = 0; i < g->nvalues; i++)
        cJSON_AddItemToArray(values, value_json(g, &g->values[i]));
    for (size_t i = 0; i < g->nnodes; i++)
        cJSON_AddItemToArray(nodes, node_json(g, &g->nodes[i]));
    return o;
}

int ak_graph_write(const struct ak_graph *g, FILE *f) {
    cJSON *o = ak_graph_to_json(g);
    int rc = ak_json_print(f, o);
    cJSON_Delete(o);
    return rc;
}
