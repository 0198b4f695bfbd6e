/* Nodes of model.json: argument unions, outputs, and what torch says their shapes are.
 * Enumerations are the file's own; they are not c10's. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "pt2_read.h"

/* ---- indices ---- */

int pt2_index_init(struct pt2_index *x, const cJSON *o, const char *what, struct ak_err *err) {
    *x = (struct pt2_index){0};
    if (!cJSON_IsObject(o)) return ak_fail(err, AK_EXIT_INPUT, "%s is missing or no object", what);
    x->items = ak_malloc(((size_t)cJSON_GetArraySize(o) + 1) * sizeof *x->items);
    const cJSON *v;
    int n = 0;
    cJSON_ArrayForEach(v, o) {
        if (ak_names_add(&x->names, v->string, n)) return ak_fail(err, AK_EXIT_INPUT, "%s holds '%s' twice", what, v->string);
        x->items[n++] = v;
    }
    return 0;
}

const cJSON *pt2_index_get(const struct pt2_index *x, const char *key) {
    int i = ak_names_find(&x->names, key);
    return i < 0 ? NULL : x->items[i];
}

void pt2_index_release(struct pt2_index *x) {
    ak_names_release(&x->names);
    free(x->items);
    *x = (struct pt2_index){0};
}

/* ---- tensors' descriptions ---- */

int pt2_dtype(int64_t code, enum ak_dtype *dtype, struct ak_err *err) {
    static const struct {
        int dtype;
        const char *name;
    } codes[] = {[1] = {AK_U8, 0},  [2] = {AK_I8, 0},        [3] = {AK_I16, 0},       [4] = {AK_I32, 0},   [5] = {AK_I64, 0},
                 [6] = {AK_F16, 0}, [7] = {AK_F32, 0},       [8] = {AK_F64, 0},       [9] = {-1, "complex32"}, [10] = {-1, "complex64"},
                 [11] = {-1, "complex128"}, [12] = {AK_BOOL, 0}, [13] = {AK_BF16, 0}, [28] = {-1, "uint16"}, [29] = {-1, "float8_e4m3fn"},
                 [30] = {-1, "float8_e5m2"}, [31] = {-1, "float8_e4m3fnuz"}, [32] = {-1, "float8_e5m2fnuz"}};
    if (code < 1 || code >= (int64_t)(sizeof codes / sizeof *codes) || (code > 13 && !codes[code].name))
        return ak_fail(err, AK_EXIT_INPUT, "unknown dtype code %lld", (long long)code);
    if (codes[code].name) return ak_fail(err, AK_EXIT_INPUT, "dtype %s is not supported", codes[code].name);
    *dtype = (enum ak_dtype)codes[code].dtype;
    return 0;
}

/* SymInt: {"as_int": n}, or an expression with the value it had while exporting. */
static int sym_int(const cJSON *o, int64_t *value, const char **expr, struct ak_err *err) {
    const cJSON *e = ak_json_get(o, "as_expr"), *hint;
    *expr = NULL;
    *value = -1;
    if (!e) return ak_json_i64(o, "as_int", value, err);
    if (ak_json_str(e, "expr_str", expr, err)) return -1;
    hint = ak_json_get(e, "hint");
    return !hint || cJSON_IsNull(hint) ? 0 : ak_json_i64(hint, "as_int", value, err);
}

static int read_sizes(const cJSON *o, const char *key, int64_t *out, const char **sym, int *n, struct ak_err *err) {
    const cJSON *list, *v;
    if (ak_json_array(o, key, &list, err)) return -1;
    *n = 0;
    cJSON_ArrayForEach(v, list) {
        if (*n == AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "a tensor has more than %d dimensions", AK_MAX_DIMS);
        const char *expr;
        if (sym_int(v, &out[*n], &expr, err)) return ak_fail_in(err, "field '%s'", key);
        if (sym) sym[*n] = expr;
        if (out[*n] < 0 && !expr) return ak_fail(err, AK_EXIT_INPUT, "field '%s' holds a negative number", key);
        ++*n;
    }
    return 0;
}

int pt2_meta_read(const cJSON *o, struct pt2_meta *m, struct ak_err *err) {
    int64_t code, layout, shape[AK_MAX_DIMS], stride[AK_MAX_DIMS];
    int n, nstrides;
    const char *expr;
    *m = (struct pt2_meta){.known = true};
    enum ak_dtype dtype;
    if (ak_json_i64(o, "dtype", &code, err) || pt2_dtype(code, &dtype, err) || ak_json_i64(o, "layout", &layout, err)) return -1;
    if (layout != 7) return ak_fail(err, AK_EXIT_INPUT, "layout code %lld is not supported (only strided tensors are)", (long long)layout);
    if (read_sizes(o, "sizes", shape, m->sym, &n, err) || read_sizes(o, "strides", stride, NULL, &nstrides, err)) return -1;
    if (n != nstrides) return ak_fail(err, AK_EXIT_INPUT, "%d strides for %d dimensions", nstrides, n);
    m->t = (struct ak_tensor){.dtype = dtype, .ndim = n};
    for (int i = 0; i < n; i++) {
        m->t.shape[i] = shape[i];
        m->t.stride[i] = stride[i];
        m->known &= shape[i] >= 0 && stride[i] >= 0;
    }
    if (sym_int(ak_json_get(o, "storage_offset"), &m->t.offset, &expr, err)) return ak_fail_in(err, "field 'storage_offset'");
    if (m->t.offset < 0 && !expr) return ak_fail(err, AK_EXIT_INPUT, "field 'storage_offset' is negative");
    m->known &= m->t.offset >= 0;
    if (m->known && ak_extent(&m->t) < 0) return ak_fail(err, AK_EXIT_INPUT, "a shape, stride or offset is negative or too large");
    return 0;
}

/* ---- scopes ---- */

int pt2_scope_init(struct pt2_scope *s, struct ak_graph *g, const cJSON *graph, const char *prefix, struct ak_names *node_names,
                   struct ak_err *err) {
    *s = (struct pt2_scope){.g = g, .prefix = prefix, .node_names = node_names, .err = err, .sym_ints = ak_json_get(graph, "sym_int_values")};
    return pt2_index_init(&s->tensors, ak_json_get(graph, "tensor_values"), "field 'tensor_values'", err);
}

void pt2_scope_release(struct pt2_scope *s) {
    ak_names_release(&s->values);
    pt2_index_release(&s->tensors);
}

int pt2_scope_add(struct pt2_scope *s, const char *name, int id) {
    return ak_names_add(&s->values, name, id) ? ak_fail(s->err, AK_EXIT_INPUT, "two values are called '%s'", name) : 0;
}

int pt2_scope_find(const struct pt2_scope *s, const char *name, int *id) {
    *id = ak_names_find(&s->values, name);
    return *id < 0 ? ak_fail(s->err, AK_EXIT_INPUT, "'%s' is read before anything has made it", name) : 0;
}

/* ---- arguments ---- */

static int find_named(const struct pt2_scope *s, const cJSON *o, int *id) {
    const char *name;
    return ak_json_str(o, "name", &name, s->err) || pt2_scope_find(s, name, id) ? -1 : 0;
}

static int *one_id(struct pt2_scope *s, struct ak_garg *a) {
    a->kind = AK_GARG_VALUE;
    a->n = 1;
    return a->ids = ak_arena_alloc(&s->g->arena, sizeof *a->ids);
}

static int arg_tensor(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) { return find_named(s, v, one_id(s, a)); }

static int arg_tensors(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    a->kind = AK_GARG_VALUES;
    a->ids = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *a->ids);
    cJSON_ArrayForEach(v, list) if (find_named(s, v, &a->ids[a->n++])) return -1;
    return 0;
}

static int arg_optional_tensors(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    a->kind = AK_GARG_VALUES;
    a->ids = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *a->ids);
    cJSON_ArrayForEach(v, list) {
        const cJSON *t = ak_json_get(v, "as_tensor");
        a->ids[a->n] = -1;
        if (!t && !ak_json_get(v, "as_none")) return ak_fail(s->err, AK_EXIT_INPUT, "an entry is neither as_tensor nor as_none");
        if (t && find_named(s, t, &a->ids[a->n])) return -1;
        a->n++;
    }
    return 0;
}

static int arg_optional_tensor(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    const cJSON *t = ak_json_get(v, "as_tensor");
    return t ? arg_tensor(s, t, a) : 0;
}

static int arg_none(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    (void)s, (void)v, (void)a;
    return 0;
}

static int arg_int(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    a->val.kind = AK_VAL_INT;
    return ak_json_as_i64(v, &a->val.i, s->err);
}

static int arg_float(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    a->val.kind = AK_VAL_FLOAT;
    return ak_json_as_num(v, &a->val.f, s->err);
}

static int arg_bool(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    if (!cJSON_IsBool(v)) return ak_fail(s->err, AK_EXIT_INPUT, "not true or false");
    a->val = (struct ak_val){.kind = AK_VAL_BOOL, .i = cJSON_IsTrue(v)};
    return 0;
}

static int arg_string(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    if (!cJSON_IsString(v)) return ak_fail(s->err, AK_EXIT_INPUT, "not a string");
    a->val = (struct ak_val){.kind = AK_VAL_STR, .s = ak_arena_strdup(&s->g->arena, v->valuestring)};
    return 0;
}

static int arg_ints(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    size_t n = 0;
    int64_t *out = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *out);
    cJSON_ArrayForEach(v, list) {
        if (cJSON_IsBool(v))
            out[n++] = cJSON_IsTrue(v);
        else if (ak_json_as_i64(v, &out[n++], s->err))
            return -1;
    }
    a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {out, n}};
    return 0;
}

static int arg_floats(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    size_t n = 0;
    double *out = ak_arena_alloc(&s->g->arena, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof *out);
    cJSON_ArrayForEach(v, list) if (ak_json_as_num(v, &out[n++], s->err)) return -1;
    a->val = (struct ak_val){.kind = AK_VAL_FLOATS, .floats = {out, n}};
    return 0;
}

/* {"as_name": value} or {"as_int": n}, {"as_float": x}, {"as_bool": b} */
static int arg_sym(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    const cJSON *name = ak_json_get(v, "as_name"), *x;
    if (cJSON_IsString(name)) return pt2_scope_find(s, name->valuestring, one_id(s, a));
    if ((x = ak_json_get(v, "as_int"))) return arg_int(s, x, a);
    if ((x = ak_json_get(v, "as_float"))) return arg_float(s, x, a);
    if ((x = ak_json_get(v, "as_bool"))) return arg_bool(s, x, a);
    return ak_fail(s->err, AK_EXIT_INPUT, "a symbolic number is neither a name nor a number");
}

static int arg_sym_ints(struct pt2_scope *s, const cJSON *list, struct ak_garg *a) {
    const cJSON *v;
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    int64_t *out = ak_arena_alloc(&s->g->arena, (n + 1) * sizeof *out);
    a->ids = ak_arena_alloc(&s->g->arena, (n + 1) * sizeof *a->ids);
    a->n = n;
    a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {out, n}};
    cJSON_ArrayForEach(v, list) {
        const cJSON *name = ak_json_get(v, "as_name");
        a->ids[i] = -1;
        if (cJSON_IsString(name)) {
            if (pt2_scope_find(s, name->valuestring, &a->ids[i])) return -1;
            if (s->g->values[a->ids[i]].kind != AK_VALUE_INT) return ak_fail(s->err, AK_EXIT_INPUT, "'%s' is no integer", name->valuestring);
            a->kind = AK_GARG_SYMINTS;
        } else if (ak_json_i64(v, "as_int", &out[i], s->err)) {
            return -1;
        }
        i++;
    }
    return 0;
}

static int arg_scalar_type(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    int64_t code;
    enum ak_dtype dtype;
    if (ak_json_as_i64(v, &code, s->err) || pt2_dtype(code, &dtype, s->err)) return -1;
    a->val = (struct ak_val){.kind = AK_VAL_INT, .i = dtype};
    return 0;
}

/* Memory formats get the numbers that schemas' defaults have: contiguous 0, preserve 1, channels_last 2 and 3. */
static int arg_memory_format(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    static const int c10[] = {-1, 0, 2, 3, 1};
    int64_t code;
    if (ak_json_as_i64(v, &code, s->err)) return -1;
    if (code < 1 || code > 4) return ak_fail(s->err, AK_EXIT_INPUT, "unknown memory format code %lld", (long long)code);
    a->val = (struct ak_val){.kind = AK_VAL_INT, .i = c10[code]};
    return 0;
}

static int arg_layout(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    int64_t code;
    if (ak_json_as_i64(v, &code, s->err)) return -1;
    if (code != 7) return ak_fail(s->err, AK_EXIT_INPUT, "layout code %lld is not supported (only strided tensors are)", (long long)code);
    a->val = (struct ak_val){.kind = AK_VAL_INT, .i = 0};
    return 0;
}

/* Where the exporter ran does not matter here. */
static int arg_device(struct pt2_scope *s, const cJSON *v, struct ak_garg *a) {
    (void)s, (void)v;
    a->val = (struct ak_val){.kind = AK_VAL_STR, .s = "cpu"};
    return 0;
}

static const struct {
    const char *key;
    int (*read)(struct pt2_scope *s, const cJSON *v, struct ak_garg *a);
    bool list;
} unions[] = {{"as_tensor", arg_tensor, false},
              {"as_int", arg_int, false},
              {"as_ints", arg_ints, true},
              {"as_float", arg_float, false},
              {"as_bool", arg_bool, false},
              {"as_none", arg_none, false},
              {"as_tensors", arg_tensors, true},
              {"as_scalar_type", arg_scalar_type, false},
              {"as_device", arg_device, false},
              {"as_layout", arg_layout, false},
              {"as_memory_format", arg_memory_format, false},
              {"as_string", arg_string, false},
              {"as_sym_int", arg_sym, false},
              {"as_sym_ints", arg_sym_ints, true},
              {"as_sym_float", arg_sym, false},
              {"as_sym_bool", arg_sym, false},
              {"as_floats", arg_floats, true},
              {"as_bools", arg_ints, true},
              {"as_optional_tensor", arg_optional_tensor, false},
              {"as_optional_tensors", arg_optional_tensors, true}};

static int read_arg(struct pt2_scope *s, const cJSON *o, struct ak_garg *a) {
    *a = (struct ak_garg){0};
    if (!cJSON_IsObject(o) || !o->child || o->child->next) return ak_fail(s->err, AK_EXIT_INPUT, "it is not an object of one key");
    for (size_t i = 0; i < sizeof unions / sizeof *unions; i++) {
        if (strcmp(o->child->string, unions[i].key)) continue;
        if (unions[i].list && !cJSON_IsArray(o->child)) return ak_fail(s->err, AK_EXIT_INPUT, "'%s' is no array", unions[i].key);
        return unions[i].read(s, o->child, a);
    }
    return ak_fail(s->err, AK_EXIT_INPUT, "kind '%s' is not supported", o->child->string);
}

static bool is_list(const char *type) { return strchr(type, '[') != NULL; }

/* Numbers and lists as the schema has them: float takes 1, int[2] takes 3. */
static void fit(struct pt2_scope *s, struct ak_garg *a, const struct ak_op_arg *spec) {
    if (a->kind != AK_GARG_CONST) return;
    if (a->val.kind == AK_VAL_INT && strncmp(spec->type, "float", 5) == 0 && !is_list(spec->type))
        a->val = (struct ak_val){.kind = AK_VAL_FLOAT, .f = (double)a->val.i};
    if (a->val.kind == AK_VAL_INT && strncmp(spec->type, "int[", 4) == 0) {
        int64_t *v = ak_arena_alloc(&s->g->arena, sizeof *v);
        *v = a->val.i;
        a->val = (struct ak_val){.kind = AK_VAL_INTS, .ints = {v, 1}};
    }
    if (a->val.kind == AK_VAL_INTS && a->val.ints.n == 0 && strncmp(spec->type, "float[", 6) == 0)
        a->val = (struct ak_val){.kind = AK_VAL_FLOATS};
}

static bool is_aten(const struct ak_op *op) { return strncmp(op->name, "aten.", 5) == 0; }

static int read_args(struct pt2_scope *s, const cJSON *inputs, struct ak_node *node) {
    const cJSON *in;
    size_t place = 0;
    bool given[AK_MAX_ARGS] = {0};
    cJSON_ArrayForEach(in, inputs) {
        const cJSON *name = ak_json_get(in, "name");
        int i = cJSON_IsString(name) ? ak_op_arg_index(node->op, name->valuestring) : -1;
        if (i < 0 && !is_aten(node->op) && place < node->op->nargs) i = (int)place; /* Python's operators name theirs as they like */
        place++;
        if (i < 0)
            return ak_fail(s->err, AK_EXIT_INPUT, "%s has no argument '%s'", node->op->name, cJSON_IsString(name) ? name->valuestring : "");
        if (given[i]) return ak_fail(s->err, AK_EXIT_INPUT, "argument '%s' is given twice", node->op->args[i].name);
        given[i] = true;
        if (read_arg(s, ak_json_get(in, "arg"), &node->args[i])) return ak_fail_in(s->err, "argument '%s'", node->op->args[i].name);
        fit(s, &node->args[i], &node->op->args[i]);
    }
    return 0;
}

/* ---- outputs ---- */

static char *full_name(const struct pt2_scope *s, const char *name) {
    char *full = ak_asprintf("%s%s", s->prefix, name), *kept = ak_arena_strdup(&s->g->arena, full);
    free(full);
    return kept;
}

static int new_output(struct pt2_scope *s, const char *name, enum ak_value_kind kind, int *id) {
    *id = ak_graph_add_value(s->g, full_name(s, name), kind, (struct ak_tensor){0});
    return pt2_scope_add(s, name, *id);
}

static int add_named(struct pt2_scope *s, const cJSON *o, const char *key, enum ak_value_kind kind, int *id) {
    const char *name;
    if (ak_json_str(o, key, &name, s->err)) return -1;
    return new_output(s, name, kind, id);
}

static int read_outputs(struct pt2_scope *s, const cJSON *outputs, int n) {
    const cJSON *o, *v;
    size_t count = 0, max = 0;
    cJSON_ArrayForEach(o, outputs) max += 1 + (size_t)cJSON_GetArraySize(o->child);
    int *outs = ak_arena_alloc(&s->g->arena, (max + 1) * sizeof *outs);
    cJSON_ArrayForEach(o, outputs) {
        if (!o->child) return ak_fail(s->err, AK_EXIT_INPUT, "an output is not an object of one key");
        const char *key = o->child->string ? o->child->string : "";
        int rc = 0;
        if (strcmp(key, "as_tensor") == 0) {
            rc = add_named(s, o->child, "name", AK_VALUE_NODE, &outs[count++]);
        } else if (strcmp(key, "as_tensors") == 0) {
            cJSON_ArrayForEach(v, o->child) if ((rc = add_named(s, v, "name", AK_VALUE_NODE, &outs[count++]))) break;
        } else if (strcmp(key, "as_sym_int") == 0 || strcmp(key, "as_sym_bool") == 0) {
            rc = add_named(s, o->child, "as_name", AK_VALUE_INT, &outs[count++]);
        } else if (strcmp(key, "as_none") == 0) {
            outs[count++] = -1;
        } else {
            rc = ak_fail(s->err, AK_EXIT_INPUT, "an output of kind '%s' is not supported", key);
        }
        if (rc) return -1;
    }
    s->g->nodes[n].outs = outs;
    s->g->nodes[n].nouts = count;
    return 0;
}

/* What inference found against what torch found. */
static int check_output(struct pt2_scope *s, int id, const char *name) {
    const struct ak_value *v = &s->g->values[id];
    struct pt2_meta m;
    char a[160], b[160];
    if (v->kind == AK_VALUE_INT) {
        const cJSON *o = ak_json_get(s->sym_ints, name);
        int64_t want;
        const char *expr;
        if (!o || sym_int(o, &want, &expr, s->err) || want < 0 || want == v->ival) return 0;
        return ak_fail(s->err, AK_EXIT_INPUT, "'%s' would be %lld, but torch recorded %lld", name, (long long)v->ival, (long long)want);
    }
    const cJSON *o = pt2_index_get(&s->tensors, name);
    if (!o) return ak_fail(s->err, AK_EXIT_INPUT, "'%s' has no entry in tensor_values", name);
    if (pt2_meta_read(o, &m, s->err)) return ak_fail_in(s->err, "value '%s'", name);
    bool same = m.t.dtype == v->t.dtype && m.t.ndim == v->t.ndim;
    for (int d = 0; d < m.t.ndim && same; d++)
        same = m.t.shape[d] < 0 || m.t.shape[d] == v->t.shape[d];
    if (same) return 0;
    return ak_fail(s->err, AK_EXIT_INPUT, "'%s' would be %s, but torch recorded %s", name, ak_tensor_describe(&v->t, a),
                   ak_tensor_describe(&m.t, b));
}

/* ---- nodes ---- */

static const char *op_name(const cJSON *node) {
    const cJSON *t = ak_json_get(node, "target");
    if (!cJSON_IsString(t)) return "";
    return strncmp(t->valuestring, "torch.ops.", 10) == 0 ? t->valuestring + 10 : t->valuestring;
}

static bool is_wrapper(const char *op) {
    return strcmp(op, "higher_order.wrap_with_set_grad_enabled") == 0 || strcmp(op, "higher_order.wrap_with_autocast") == 0;
}

static const cJSON *graph_arg(const cJSON *node) {
    const cJSON *in, *g;
    cJSON_ArrayForEach(in, ak_json_get(node, "inputs")) {
        g = ak_json_get(ak_json_get(in, "arg"), "as_graph");
        if (g) return ak_json_get(g, "graph");
    }
    return NULL;
}

/* "L__self__,,Net;L__self__a.b,a.b,torch.nn.Linear" -> "a.b" */
static void set_origin(struct pt2_scope *s, const cJSON *o, struct ak_node *node) {
    const cJSON *stack = ak_json_get(ak_json_get(o, "metadata"), "nn_module_stack");
    if (!cJSON_IsString(stack)) return;
    const char *last = strrchr(stack->valuestring, ';');
    const char *path = strchr(last ? last : stack->valuestring, ',');
    if (!path) return;
    char *copy = ak_arena_strdup(&s->g->arena, path + 1);
    copy[strcspn(copy, ",")] = '\0';
    node->origin = copy;
}

static char *node_name(struct pt2_scope *s, const cJSON *o) {
    const cJSON *name = ak_json_get(o, "name"), *first = ak_json_get(o, "outputs");
    first = first ? first->child : NULL;
    if (!cJSON_IsString(name)) name = ak_json_get(ak_json_get(first, "as_tensor"), "name");
    char *full = cJSON_IsString(name) ? full_name(s, name->valuestring) : full_name(s, "node");
    if (ak_names_add(s->node_names, full, 0) == 0) return full;
    char *other = ak_asprintf("%s.n%zu", full, s->g->nnodes);
    full = ak_arena_strdup(&s->g->arena, other);
    free(other);
    ak_names_add(s->node_names, full, 0);
    return full;
}

static int read_plain(struct pt2_scope *s, const cJSON *o) {
    const cJSON *inputs, *outputs;
    const struct ak_op *op = ak_op_find(op_name(o));
    if (!op) return ak_fail(s->err, AK_EXIT_INPUT, "there is no op '%s'", op_name(o));
    char *name = node_name(s, o);
    int n = ak_graph_add_node(s->g, op, name);
    set_origin(s, o, &s->g->nodes[n]);
    if (ak_json_array(o, "inputs", &inputs, s->err) || ak_json_array(o, "outputs", &outputs, s->err) ||
        read_args(s, inputs, &s->g->nodes[n]) || read_outputs(s, outputs, n))
        return ak_fail_in(s->err, "node '%s'", name);
    if (ak_graph_infer(s->g, n, s->err)) return -1;
    for (size_t i = 0; i < s->g->nodes[n].nouts; i++) {
        int id = s->g->nodes[n].outs[i];
        if (id >= 0 && check_output(s, id, s->g->values[id].name + strlen(s->prefix))) return ak_fail_in(s->err, "node '%s' (%s)", name, op->name);
    }
    return 0;
}

/* The tensors behind the graph among a wrapper's arguments are the graph's inputs. */
static int pass_inputs(struct pt2_scope *s, struct pt2_scope *inner, const cJSON *o, const cJSON *graph) {
    const cJSON *in, *params = ak_json_get(graph, "inputs"), *param = params ? params->child : NULL;
    bool behind = false;
    cJSON_ArrayForEach(in, ak_json_get(o, "inputs")) {
        const cJSON *arg = ak_json_get(in, "arg"), *tensor = ak_json_get(arg, "as_tensor");
        if (behind) {
            const cJSON *formal = ak_json_get(ak_json_get(param, "as_tensor"), "name");
            int id;
            if (!cJSON_IsString(formal) || !tensor) return ak_fail(s->err, AK_EXIT_INPUT, "it takes something other than tensors");
            if (find_named(s, tensor, &id) || pt2_scope_add(inner, formal->valuestring, id)) return -1;
            param = param->next;
        }
        behind |= ak_json_get(arg, "as_graph") != NULL;
    }
    return 0;
}

static int name_result(struct pt2_scope *s, const cJSON *o, const int *ids, int n, int *k) {
    const char *name;
    if (*k >= n) return ak_fail(s->err, AK_EXIT_INPUT, "it has more results than its graph");
    return ak_json_str(o, "name", &name, s->err) || pt2_scope_add(s, name, ids[(*k)++]) ? -1 : 0;
}

static int pass_outputs(struct pt2_scope *s, struct pt2_scope *inner, const cJSON *o, const cJSON *graph) {
    const cJSON *out, *v;
    int ids[64], n = 0, k = 0;
    cJSON_ArrayForEach(out, ak_json_get(graph, "outputs")) {
        int got = pt2_output_ids(inner, out, ids + n, 64 - n);
        if (got < 0) return -1;
        n += got;
    }
    cJSON_ArrayForEach(out, ak_json_get(o, "outputs")) {
        const cJSON *one = ak_json_get(out, "as_tensor");
        if (one && name_result(s, one, ids, n, &k)) return -1;
        cJSON_ArrayForEach(v, ak_json_get(out, "as_tensors")) if (name_result(s, v, ids, n, &k)) return -1;
    }
    return 0;
}

/* A graph inside a node that only sets a mode: its nodes join ours. */
static int read_wrapper(struct pt2_scope *s, const cJSON *o) {
    const cJSON *graph = graph_arg(o);
    struct pt2_scope inner;
    char *name = node_name(s, o), *prefix = ak_asprintf("%s.", name);
    int rc = pt2_scope_init(&inner, s->g, graph, prefix, s->node_names, s->err) || pass_inputs(s, &inner, o, graph) ||
             pt2_nodes_read(&inner, graph) || pass_outputs(s, &inner, o, graph);
    pt2_scope_release(&inner);
    free(prefix);
    return rc ? ak_fail_in(s->err, "node '%s'", name) : 0;
}

int pt2_output_ids(const struct pt2_scope *s, const cJSON *arg, int *ids, int max) {
    const cJSON *one = ak_json_get(arg, "as_tensor"), *list = ak_json_get(arg, "as_tensors"), *v;
    int n = 0;
    if (one && max < 1) return ak_fail(s->err, AK_EXIT_INPUT, "too many outputs");
    if (one) return find_named(s, one, ids) ? -1 : 1;
    cJSON_ArrayForEach(v, list) {
        if (n == max) return ak_fail(s->err, AK_EXIT_INPUT, "too many outputs");
        if (find_named(s, v, &ids[n++])) return -1;
    }
    return n;
}

/* ---- which nodes are needed ---- */

/* Every name that an argument reads, at any depth. */
static void mark(struct ak_names *live, const cJSON *v) {
    if (cJSON_IsString(v) && v->string && (strcmp(v->string, "name") == 0 || strcmp(v->string, "as_name") == 0))
        ak_names_add(live, v->valuestring, 0);
    for (v = v ? v->child : NULL; v; v = v->next)
        mark(live, v);
}

static bool makes_live(const struct ak_names *live, const cJSON *v) {
    if (cJSON_IsString(v) && v->string && (strcmp(v->string, "name") == 0 || strcmp(v->string, "as_name") == 0))
        return ak_names_find(live, v->valuestring) >= 0;
    for (v = v ? v->child : NULL; v; v = v->next)
        if (makes_live(live, v)) return true;
    return false;
}

/* "aten.add_.Tensor": it may change what others read. */
static bool in_place(const char *op) {
    const char *dot = strrchr(op, '.');
    return dot && dot > op + 1 && dot[-1] == '_' && dot[-2] != '_';
}

/* Nodes in order that the outputs need: NULL-terminated, freed by the caller. */
static const cJSON **live_nodes(const cJSON *graph) {
    const cJSON *nodes = ak_json_get(graph, "nodes"), *v;
    size_t n = (size_t)cJSON_GetArraySize(nodes), i = 0, k = 0;
    const cJSON **all = ak_malloc((n + 1) * sizeof *all);
    struct ak_names live = {0};
    mark(&live, ak_json_get(graph, "outputs"));
    cJSON_ArrayForEach(v, nodes) all[i++] = v;
    for (i = n; i-- > 0;) {
        const char *op = op_name(all[i]);
        if (makes_live(&live, ak_json_get(all[i], "outputs")) || in_place(op))
            cJSON_ArrayForEach(v, ak_json_get(all[i], "inputs")) mark(&live, ak_json_get(v, "arg"));
        else
            all[i] = NULL;
    }
    for (i = 0; i < n; i++)
        if (all[i]) all[k++] = all[i];
    all[k] = NULL;
    ak_names_release(&live);
    return all;
}

int pt2_nodes_read(struct pt2_scope *s, const cJSON *graph) {
    const cJSON **nodes = live_nodes(graph);
    int rc = 0;
    for (size_t i = 0; nodes[i] && !rc; i++)
        rc = is_wrapper(op_name(nodes[i])) ? read_wrapper(s, nodes[i]) : read_plain(s, nodes[i]);
    free(nodes);
    return rc;
}

/* ---- ops that the set lacks ---- */

struct missing {
    struct ak_names names;
    struct {
        const char *op;
        size_t count;
    } *ops;
    size_t n, cap;
};

static void find_missing(struct missing *m, const cJSON *graph) {
    const cJSON **nodes = live_nodes(graph);
    for (size_t i = 0; nodes[i]; i++) {
        const char *op = op_name(nodes[i]);
        if (is_wrapper(op) && graph_arg(nodes[i])) find_missing(m, graph_arg(nodes[i]));
        if (is_wrapper(op) || ak_op_find(op)) continue;
        int at = ak_names_find(&m->names, op);
        if (at < 0) {
            AK_GROW(m->ops, m->n, m->cap);
            at = (int)m->n;
            m->ops[m->n].op = op;
            m->ops[m->n++].count = 0;
            ak_names_add(&m->names, op, at);
        }
        m->ops[at].count++;
    }
    free(nodes);
}

int pt2_check_ops(const cJSON *graph, struct ak_err *err) {
    struct missing m = {0};
    find_missing(&m, graph);
    char text[sizeof err->msg - 200], near[128];
    size_t used = 0, i;
    for (i = 0; i < m.n && used + 256 < sizeof text; i++) {
        const char *close = ak_op_near(m.ops[i].op, near, sizeof near);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.100s (%zu node%s%s%s)", i ? ", " : "", m.ops[i].op, m.ops[i].count,
                                 m.ops[i].count == 1 ? "" : "s", close && *close ? "; near it: " : "", close ? close : "");
    }
    int rc = 0;
    if (m.n && i < m.n)
        rc = ak_fail(err, AK_EXIT_INPUT, "%zu ops are not in the op set: %s and %zu more", m.n, text, m.n - i);
    else if (m.n)
        rc = ak_fail(err, AK_EXIT_INPUT, "%zu op%s not in the op set: %s", m.n, m.n == 1 ? " is" : "s are", text);
    ak_names_release(&m.names);
    free(m.ops);
    return rc;
}
