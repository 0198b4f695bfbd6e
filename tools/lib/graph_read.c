/* Reading graph.json: names are resolved, nodes come after what they read, and what inference finds
 * is what the file says. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "graph_json.h"
#include "group.h"
#include "json.h"
#include "names.h"

/* ---- values of few digits and many ---- */

/* Bytes into the arena; -1 if it is not base64. */
static int64_t decode(const char *text, struct ak_arena *arena, void **data) {
    size_t len = strlen(text);
    if (len % 4) return -1;
    size_t pad = len && text[len - 1] == '=' ? 1 + (text[len - 2] == '=') : 0;
    uint8_t *p = ak_arena_alloc(arena, len / 4 * 3 + 16);
    for (size_t i = 0; i < len; i += 4) {
        uint32_t w = 0;
        for (size_t k = 0; k < 4; k++) {
            const char *d = i + k >= len - pad ? ak_base64 : strchr(ak_base64, text[i + k]);
            if (!d) return -1;
            w = w << 6 | (uint32_t)(d - ak_base64);
        }
        for (size_t k = 0; k < 3; k++)
            p[i / 4 * 3 + k] = (uint8_t)(w >> (16 - 8 * k));
    }
    *data = p;
    return (int64_t)(len / 4 * 3 - pad);
}

static int read_whole(const cJSON *v, int64_t *out, struct ak_err *err) {
    if (!cJSON_IsString(v)) return ak_json_as_i64(v, out, err);
    char *end;
    long long n = strtoll(v->valuestring, &end, 10);
    if (end == v->valuestring || *end) return ak_fail(err, AK_EXIT_INPUT, "'%s' is not an integer", v->valuestring);
    *out = n;
    return 0;
}

struct reader {
    struct ak_graph *g;
    struct ak_names values;
    struct ak_err *err;
};

static int bad(struct reader *r, const char *what) { return ak_fail(r->err, AK_EXIT_INPUT, "%s", what); }

static int find(struct reader *r, const cJSON *name, int *id) {
    if (!cJSON_IsString(name)) return bad(r, "a value's name is not a string");
    *id = ak_names_find(&r->values, name->valuestring);
    return *id < 0 ? ak_fail(r->err, AK_EXIT_INPUT, "there is no value '%s'", name->valuestring) : 0;
}

static int kind_of(const char *name) {
    for (size_t i = 0; i < sizeof ak_value_kinds / sizeof *ak_value_kinds; i++)
        if (strcmp(name, ak_value_kinds[i]) == 0) return (int)i;
    return -1;
}

static int read_field(const cJSON *o, const char *key, int64_t *out, struct ak_err *err) {
    const cJSON *v = ak_json_get(o, key);
    if (!v) return ak_fail(err, AK_EXIT_INPUT, "field '%s' is missing", key);
    return read_whole(v, out, err) ? ak_fail_in(err, "field '%s'", key) : 0;
}

static int read_input(struct reader *r, const cJSON *o, struct ak_value *v) {
    if (!ak_dtype_is_float(v->t.dtype)) {
        if (read_field(o, "lo", &v->lo, r->err) || read_field(o, "hi", &v->hi, r->err)) return -1;
        if (v->lo >= v->hi) return bad(r, "its range 'lo' to 'hi' is empty");
    }
    const cJSON *sym = ak_json_get(o, "sym"), *s;
    if (!sym) return 0;
    if (cJSON_GetArraySize(sym) != v->t.ndim) return bad(r, "field 'sym' does not have an entry for each dimension");
    int d = 0;
    cJSON_ArrayForEach(s, sym) {
        if (cJSON_IsString(s)) v->sym[d] = ak_arena_strdup(&r->g->arena, s->valuestring);
        d++;
    }
    return 0;
}

static int read_file(struct reader *r, const cJSON *o, struct ak_value *v) {
    int64_t file;
    if (read_field(o, "file", &file, r->err) || read_field(o, "at", &v->at, r->err) || read_field(o, "bytes", &v->bytes, r->err)) return -1;
    if (file < 0 || (uint64_t)file >= r->g->nfiles) return bad(r, "there is no file of that number");
    if (v->at < 0 || v->bytes < 0 || v->at > INT64_MAX - v->bytes) return bad(r, "its byte range is negative or too large");
    v->file = (int)file;
    return 0;
}

static int read_random(struct reader *r, const cJSON *o, struct ak_value *v) {
    const char *seed;
    char *end;
    if (ak_json_str(o, "seed", &seed, r->err) || ak_json_num(o, "mean", &v->mean, r->err) || ak_json_num(o, "std", &v->std, r->err)) return -1;
    v->seed = strtoull(seed, &end, 16);
    return end == seed || *end ? bad(r, "field 'seed' is not a hexadecimal number") : 0;
}

static int read_inline(struct reader *r, const cJSON *o, struct ak_value *v) {
    const char *text;
    if (ak_json_str(o, "data", &text, r->err)) return -1;
    v->bytes = decode(text, &r->g->arena, &v->data);
    return v->bytes < 0 ? bad(r, "field 'data' is not base64") : 0;
}

/* Views of FILE and INLINE storages are said in the file; those that nodes make are inferred. */
static int read_view(struct reader *r, const cJSON *o, int id) {
    const cJSON *view = ak_json_get(o, "view_of");
    int of;
    if (!view) return 0;
    if (find(r, view, &of)) return -1;
    const struct ak_value *v = &r->g->values[id], *root = &r->g->values[of];
    if (of >= id || root->kind != v->kind || root->t.dtype != v->t.dtype || root->view_of)
        return ak_fail(r->err, AK_EXIT_INPUT, "it cannot be a view of '%s'", root->name);
    r->g->values[id].view_of = of + 1;
    return 0;
}

static int read_storage(struct reader *r, const cJSON *o, int id) {
    struct ak_value *v = &r->g->values[id];
    if ((v->kind == AK_VALUE_FILE ? read_file : read_inline)(r, o, v) || read_view(r, o, id)) return -1;
    if (ak_extent(&v->t) > v->bytes / (int64_t)ak_dtype_size(v->t.dtype)) return bad(r, "it reaches past its bytes");
    return 0;
}

static int read_value(struct reader *r, const cJSON *o) {
    const char *name, *kind;
    if (ak_json_str(o, "name", &name, r->err) || ak_json_str(o, "kind", &kind, r->err)) return -1;
    int k = kind_of(kind);
    if (k < 0) return ak_fail(r->err, AK_EXIT_INPUT, "value '%s': unknown kind '%s'", name, kind);
    struct ak_tensor t = {0};
    if (k != AK_VALUE_INT && ak_tensor_from_json(o, &t, r->err)) return ak_fail_in(r->err, "value '%s'", name);
    int id = ak_graph_add_value(r->g, name, (enum ak_value_kind)k, t), rc = 0;
    struct ak_value *v = &r->g->values[id];
    if (ak_names_add(&r->values, v->name, id)) return ak_fail(r->err, AK_EXIT_INPUT, "two values are called '%s'", name);
    switch (v->kind) {
    case AK_VALUE_INPUT: rc = read_input(r, o, v); break;
    case AK_VALUE_FILE:
    case AK_VALUE_INLINE: rc = read_storage(r, o, id); break;
    case AK_VALUE_RANDOM: rc = read_random(r, o, v); break;
    case AK_VALUE_INT: rc = read_field(o, "value", &v->ival, r->err); break;
    case AK_VALUE_NODE: break;
    }
    return rc ? ak_fail_in(r->err, "value '%s'", name) : 0;
}

static int read_ints(struct reader *r, const cJSON *list, struct ak_garg *a) {
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    int64_t *v = ak_arena_alloc(&r->g->arena, (n + 1) * sizeof *v);
    int *ids = ak_arena_alloc(&r->g->arena, (n + 1) * sizeof *ids);
    const cJSON *e;
    a->kind = AK_GARG_CONST;
    cJSON_ArrayForEach(e, list) {
        ids[i] = -1;
        if (cJSON_IsString(e) && ak_names_find(&r->values, e->valuestring) >= 0) {
            find(r, e, &ids[i]);
            if (r->g->values[ids[i]].kind != AK_VALUE_INT) return ak_fail(r->err, AK_EXIT_INPUT, "value '%s' is no integer", e->valuestring);
            a->kind = AK_GARG_SYMINTS;
        } else if (read_whole(e, &v[i], r->err)) {
            return -1;
        }
        i++;
    }
    a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {v, n}};
    a->ids = ids;
    a->n = n;
    return 0;
}

static int read_reals(struct reader *r, const cJSON *list, struct ak_garg *a) {
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    double *v = ak_arena_alloc(&r->g->arena, (n + 1) * sizeof *v);
    const cJSON *e;
    cJSON_ArrayForEach(e, list) if (ak_json_as_num(e, &v[i++], r->err)) return -1;
    a->val = (struct ak_val){.kind = AK_VAL_FLOATS, .floats = {v, n}};
    return 0;
}

static int read_values(struct reader *r, const cJSON *list, struct ak_garg *a) {
    size_t i = 0;
    const cJSON *e;
    if (!cJSON_IsArray(list)) return bad(r, "a list of values is no array");
    a->kind = AK_GARG_VALUES;
    a->n = (size_t)cJSON_GetArraySize(list);
    a->ids = ak_arena_alloc(&r->g->arena, (a->n + 1) * sizeof *a->ids);
    cJSON_ArrayForEach(e, list) {
        a->ids[i] = -1;
        if (!cJSON_IsNull(e) && find(r, e, &a->ids[i])) return -1;
        i++;
    }
    return 0;
}

static int read_arg(struct reader *r, const cJSON *o, struct ak_garg *a) {
    const cJSON *v = o->child;
    *a = (struct ak_garg){0};
    if (cJSON_IsNull(o)) return 0;
    if (!cJSON_IsObject(o) || !v || v->next) return bad(r, "it is not an object of one key");
    if (strcmp(v->string, "v") == 0) {
        a->kind = AK_GARG_VALUE;
        a->n = 1;
        a->ids = ak_arena_alloc(&r->g->arena, sizeof *a->ids);
        return find(r, v, a->ids);
    }
    if (strcmp(v->string, "vs") == 0) return read_values(r, v, a);
    if (strcmp(v->string, "ints") == 0) return cJSON_IsArray(v) ? read_ints(r, v, a) : bad(r, "'ints' is no array");
    if (strcmp(v->string, "reals") == 0) return cJSON_IsArray(v) ? read_reals(r, v, a) : bad(r, "'reals' is no array");
    if (strcmp(v->string, "int") == 0) {
        a->val.kind = AK_VAL_INT;
        return read_whole(v, &a->val.i, r->err);
    }
    if (strcmp(v->string, "real") == 0) {
        a->val.kind = AK_VAL_FLOAT;
        return ak_json_as_num(v, &a->val.f, r->err);
    }
    if (strcmp(v->string, "bool") == 0 && cJSON_IsBool(v)) {
        a->val = (struct ak_val){.kind = AK_VAL_BOOL, .i = cJSON_IsTrue(v)};
        return 0;
    }
    if (strcmp(v->string, "str") == 0 && cJSON_IsString(v)) {
        a->val = (struct ak_val){.kind = AK_VAL_STR, .s = ak_arena_strdup(&r->g->arena, v->valuestring)};
        return 0;
    }
    if (strcmp(v->string, "dtype") == 0 && cJSON_IsString(v)) {
        a->val = (struct ak_val){.kind = AK_VAL_INT, .i = ak_dtype_from_name(v->valuestring)};
        return a->val.i < 0 ? bad(r, "unknown dtype") : 0;
    }
    return ak_fail(r->err, AK_EXIT_INPUT, "unknown kind '%s'", v->string);
}

/* A value is read only after the node that makes it: the order is topological. */
static int check_made(struct reader *r, const struct ak_garg *a) {
    if (a->kind == AK_GARG_CONST) return 0;
    for (size_t i = 0; i < a->n; i++) {
        if (a->ids[i] < 0) continue;
        const struct ak_value *v = &r->g->values[a->ids[i]];
        if ((v->kind == AK_VALUE_NODE || v->kind == AK_VALUE_INT) && v->node < 0)
            return ak_fail(r->err, AK_EXIT_INPUT, "it reads '%s' before any node has made it", v->name);
    }
    return 0;
}

static int read_args(struct reader *r, const cJSON *o, int n) {
    const cJSON *args, *a;
    struct ak_node *node = &r->g->nodes[n];
    if (ak_json_object(o, "args", &args, r->err)) return -1;
    cJSON_ArrayForEach(a, args) {
        int i = ak_op_arg_index(node->op, a->string);
        if (i < 0) return ak_fail(r->err, AK_EXIT_INPUT, "%s has no argument '%s'", node->op->name, a->string);
        if (read_arg(r, a, &node->args[i]) || check_made(r, &node->args[i])) return ak_fail_in(r->err, "argument '%s'", a->string);
    }
    return 0;
}

static int read_outs(struct reader *r, const cJSON *o, int n) {
    const cJSON *outs, *e;
    struct ak_node *node = &r->g->nodes[n];
    if (ak_json_array(o, "outs", &outs, r->err)) return -1;
    node->nouts = (size_t)cJSON_GetArraySize(outs);
    node->outs = ak_arena_alloc(&r->g->arena, (node->nouts + 1) * sizeof *node->outs);
    size_t i = 0;
    cJSON_ArrayForEach(e, outs) {
        node->outs[i] = -1;
        if (!cJSON_IsNull(e)) {
            if (find(r, e, &node->outs[i])) return -1;
            struct ak_value *v = &r->g->values[node->outs[i]];
            if ((v->kind != AK_VALUE_NODE && v->kind != AK_VALUE_INT) || v->node >= 0)
                return ak_fail(r->err, AK_EXIT_INPUT, "'%s' is not its to make", v->name);
            v->node = n;
        }
        i++;
    }
    return 0;
}

static bool same_tensor(const struct ak_tensor *a, const struct ak_tensor *b) {
    if (a->dtype != b->dtype || !ak_same_shape(a, b) || a->offset != b->offset) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] > 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

/* Infers node n and compares with what the file says of its outputs. */
static int check_node(struct reader *r, int n) {
    struct ak_node *node = &r->g->nodes[n];
    struct ak_value *was = ak_malloc((node->nouts + 1) * sizeof *was);
    for (size_t i = 0; i < node->nouts; i++)
        if (node->outs[i] >= 0) was[i] = r->g->values[node->outs[i]];
    int rc = ak_graph_infer(r->g, n, r->err);
    for (size_t i = 0; i < node->nouts && !rc; i++) {
        if (node->outs[i] < 0) continue;
        const struct ak_value *v = &r->g->values[node->outs[i]];
        if (v->kind != was[i].kind || (v->kind == AK_VALUE_INT ? v->ival != was[i].ival : !same_tensor(&v->t, &was[i].t)))
            rc = ak_fail(r->err, AK_EXIT_INPUT, "node '%s': value '%s' is not what %s makes: import the model again", node->name, v->name,
                         node->op->name);
    }
    free(was);
    return rc;
}

static int read_node(struct reader *r, const cJSON *o, struct ak_names *names) {
    const char *name, *op_name;
    const cJSON *origin = ak_json_get(o, "origin");
    char near[256];
    if (ak_json_str(o, "name", &name, r->err) || ak_json_str(o, "op", &op_name, r->err)) return -1;
    const struct ak_op *op = ak_op_find(op_name);
    if (!op)
        return ak_fail(r->err, AK_EXIT_INPUT, "node '%s': there is no op '%s'; near it: %s", name, op_name, ak_op_near(op_name, near, sizeof near));
    int n = ak_graph_add_node(r->g, op, name);
    if (ak_names_add(names, r->g->nodes[n].name, n)) return ak_fail(r->err, AK_EXIT_INPUT, "two nodes are called '%s'", name);
    if (read_args(r, o, n) || read_outs(r, o, n)) return ak_fail_in(r->err, "node '%s'", name);
    if (cJSON_IsString(origin)) r->g->nodes[n].origin = ak_arena_strdup(&r->g->arena, origin->valuestring);
    return check_node(r, n);
}

static int read_names(struct reader *r, const cJSON *o, const char *key, int **ids, size_t *n) {
    const cJSON *list, *e;
    if (ak_json_array(o, key, &list, r->err)) return -1;
    *ids = ak_arena_alloc(&r->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof **ids);
    *n = 0;
    cJSON_ArrayForEach(e, list) if (find(r, e, &(*ids)[(*n)++])) return ak_fail_in(r->err, "field '%s'", key);
    return 0;
}

static int read_symbols(struct reader *r, const cJSON *o) {
    const cJSON *list = ak_json_get(o, "symbols"), *e;
    struct ak_graph *g = r->g;
    g->symbols = ak_arena_alloc(&g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *g->symbols);
    cJSON_ArrayForEach(e, list) {
        struct ak_symbol *s = &g->symbols[g->nsymbols++];
        const char *name;
        if (ak_json_str(e, "name", &name, r->err) || read_field(e, "value", &s->value, r->err) || read_field(e, "min", &s->min, r->err) ||
            read_field(e, "max", &s->max, r->err))
            return ak_fail_in(r->err, "symbol %zu", g->nsymbols);
        s->name = ak_arena_strdup(&g->arena, name);
    }
    return 0;
}

static int read_head(struct reader *r, const cJSON *o) {
    const char *text;
    const cJSON *files, *e;
    struct ak_graph *g = r->g;
    if (ak_json_str(o, "name", &text, r->err)) return -1;
    g->name = ak_arena_strdup(&g->arena, text);
    if (ak_json_str(o, "source", &text, r->err) || ak_json_array(o, "files", &files, r->err)) return -1;
    g->source = ak_arena_strdup(&g->arena, text);
    g->files = ak_arena_alloc(&g->arena, ((size_t)cJSON_GetArraySize(files) + 1) * sizeof *g->files);
    cJSON_ArrayForEach(e, files) {
        if (!cJSON_IsString(e)) return bad(r, "a file's name is not a string");
        g->files[g->nfiles++] = ak_arena_strdup(&g->arena, e->valuestring);
    }
    return read_symbols(r, o);
}

static int check_ends(struct reader *r) {
    const struct ak_graph *g = r->g;
    for (size_t i = 0; i < g->ninputs; i++)
        if (g->values[g->inputs[i]].kind != AK_VALUE_INPUT) return ak_fail(r->err, AK_EXIT_INPUT, "'%s' is no input", g->values[g->inputs[i]].name);
    for (size_t i = 0; i < g->nvalues; i++) {
        const struct ak_value *v = &g->values[i];
        if ((v->kind == AK_VALUE_NODE || v->kind == AK_VALUE_INT) && v->node < 0)
            return ak_fail(r->err, AK_EXIT_INPUT, "no node makes value '%s'", v->name);
    }
    for (size_t i = 0; i < g->noutputs; i++)
        if (g->values[g->outputs[i]].kind == AK_VALUE_INT)
            return ak_fail(r->err, AK_EXIT_INPUT, "output '%s' is no tensor", g->values[g->outputs[i]].name);
    return 0;
}

static int read_graph(struct reader *r, const cJSON *o) {
    const cJSON *values, *nodes, *e;
    struct ak_names names = {0};
    if (read_head(r, o) || ak_json_array(o, "values", &values, r->err) || ak_json_array(o, "nodes", &nodes, r->err)) return -1;
    int rc = 0;
    cJSON_ArrayForEach(e, values) if ((rc = read_value(r, e))) break;
    if (!rc && (read_names(r, o, "inputs", &r->g->inputs, &r->g->ninputs) || read_names(r, o, "outputs", &r->g->outputs, &r->g->noutputs)))
        rc = -1;
    if (!rc) cJSON_ArrayForEach(e, nodes) if ((rc = read_node(r, e, &names))) break;
    ak_names_release(&names);
    return rc ? rc : check_ends(r);
}

int ak_graph_from_json(struct ak_graph *g, const cJSON *o, const char *name, struct ak_err *err) {
    ak_graph_init(g);
    if (ak_json_check_format(o, "ak-graph", 1, name, "ak-import", err)) return -1;
    struct reader r = {.g = g, .err = err};
    int rc = read_graph(&r, o);
    ak_names_release(&r.values);
    if (!rc) return 0;
    ak_graph_release(g);
    return ak_fail_in(err, "'%s'", name);
}

int ak_graph_read(struct ak_graph *g, const char *path, struct ak_err *err) {
    ak_graph_init(g);
    cJSON *o = ak_json_read(path, err);
    int rc = o ? ak_graph_from_json(g, o, path, err) : -1;
    cJSON_Delete(o);
    return rc;
}
