/* Nodes of model.json: which are needed, what they read and make, and what torch says of their shapes. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "pt2_read.h"

/* ---- arguments ---- */

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
        if (pt2_arg_read(s, ak_json_get(in, "arg"), &node->op->args[i], &node->args[i])) return -1;
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
        if (!o || pt2_sym_int(o, &want, &expr, s->err) || want < 0 || want == v->ival) return 0;
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
            if (pt2_find_named(s, tensor, &id) || pt2_scope_add(inner, formal->valuestring, id)) return -1;
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

/* wrap_with_autocast(device, dtype, enabled, cache, graph, ...) */
static bool casts(const cJSON *o) {
    return strcmp(op_name(o), "higher_order.wrap_with_autocast") == 0 &&
           !cJSON_IsFalse(ak_json_get(ak_json_get(cJSON_GetArrayItem(ak_json_get(o, "inputs"), 2), "arg"), "as_bool"));
}

/* A graph inside a node that only sets a mode: its nodes join ours. */
static int read_wrapper(struct pt2_scope *s, const cJSON *o) {
    const cJSON *graph = graph_arg(o);
    struct pt2_scope inner;
    char *name = node_name(s, o);
    if (casts(o))
        return ak_fail(s->err, AK_EXIT_INPUT, "node '%s': autocast within a model is not supported: export it without, in the dtype it should run in", name);
    char *prefix = ak_asprintf("%s.", name);
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
    if (one) return pt2_find_named(s, one, ids) ? -1 : 1;
    cJSON_ArrayForEach(v, list) {
        if (n == max) return ak_fail(s->err, AK_EXIT_INPUT, "too many outputs");
        if (pt2_find_named(s, v, &ids[n++])) return -1;
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
