#include "spec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file.h"
#include "group.h"
#include "json.h"

static const char *const draw_names[] = {
    [AK_DRAW_NORMAL] = "normal", [AK_DRAW_INT] = "int", [AK_DRAW_COS] = "cos", [AK_DRAW_MASK] = "mask"};

static int read_draw(const cJSON *o, struct ak_spec_arg *arg, struct ak_err *err) {
    const char *name = "normal";
    if (ak_json_get(o, "draw") && ak_json_str(o, "draw", &name, err)) return -1;
    for (size_t i = 0; i < sizeof draw_names / sizeof *draw_names; i++) {
        if (strcmp(draw_names[i], name)) continue;
        arg->draw = (enum ak_draw)i;
        if (arg->draw != AK_DRAW_INT) return 0;
        return ak_json_i64(o, "lo", &arg->lo, err) || ak_json_i64(o, "hi", &arg->hi, err) ? -1 : 0;
    }
    return ak_fail(err, AK_EXIT_INPUT, "unknown draw '%s'", name);
}

static int read_arg(struct ak_spec *s, const cJSON *o, struct ak_spec_arg *arg, struct ak_err *err) {
    const char *name, *role;
    if (ak_json_str(o, "name", &name, err) || ak_json_str(o, "role", &role, err)) return -1;
    arg->name = ak_arena_strdup(&s->arena, name);
    int r = ak_role_from_name(role);
    if (r < 0) return ak_fail(err, AK_EXIT_INPUT, "argument '%s' has unknown role '%s'", name, role);
    arg->role = (enum ak_role)r;
    if (arg->role == AK_ROLE_ABSENT) return 0;
    if (ak_tensor_from_json(o, &arg->t, err) || read_draw(o, arg, err)) return ak_fail_in(err, "argument '%s'", name);
    if (ak_extent(&arg->t) < 0) return ak_fail(err, AK_EXIT_INPUT, "argument '%s' has an impossible shape", name);
    return 0;
}

/* The graph's inputs and outputs must be the case's arguments. */
static int check_graph(const struct ak_spec *s, const struct ak_case *c, struct ak_err *err) {
    size_t in = 0, out = 0;
    for (size_t i = 0; i < s->nargs; i++) {
        const struct ak_spec_arg *arg = &c->args[i];
        const struct ak_graph *g = c->graph;
        int value = -1;
        if (arg->role == AK_ROLE_OUTPUT)
            value = out < g->noutputs ? g->outputs[out++] : -1;
        else if (arg->role != AK_ROLE_ABSENT)
            value = in < g->ninputs ? g->inputs[in++] : -1;
        else
            continue;
        if (value < 0 || !ak_same_shape(&g->values[value].t, &arg->t))
            return ak_fail(err, AK_EXIT_INPUT, "argument '%s' does not fit the subgraph", arg->name);
    }
    if (in != c->graph->ninputs || out != c->graph->noutputs)
        return ak_fail(err, AK_EXIT_INPUT, "the subgraph has other inputs or outputs than the arguments");
    return 0;
}

static int read_case(struct ak_spec *s, const cJSON *o, struct ak_case *c, struct ak_err *err) {
    const char *stage, *name, *family;
    int64_t graph;
    const cJSON *args;
    if (ak_json_str(o, "stage", &stage, err) || ak_json_str(o, "name", &name, err) ||
        ak_json_str(o, "family", &family, err) || ak_json_num(o, "tol", &c->tol, err) ||
        ak_json_i64(o, "graph", &graph, err) || ak_json_array(o, "args", &args, err))
        return -1;
    c->stage = ak_arena_strdup(&s->arena, stage);
    c->name = ak_arena_strdup(&s->arena, name);
    c->family = ak_arena_strdup(&s->arena, family);
    if (graph < 0 || (size_t)graph >= s->ngraphs) return ak_fail(err, AK_EXIT_INPUT, "no graph %lld", (long long)graph);
    c->graph = &s->graphs[graph];
    size_t n = (size_t)cJSON_GetArraySize(args);
    if (s->nargs && n != s->nargs) return ak_fail(err, AK_EXIT_INPUT, "%zu arguments where the spec has %zu", n, s->nargs);
    s->nargs = n;
    c->args = ak_arena_alloc(&s->arena, n * sizeof *c->args);
    size_t i = 0;
    const cJSON *arg;
    cJSON_ArrayForEach(arg, args) if (read_arg(s, arg, &c->args[i++], err)) return -1;
    return check_graph(s, c, err);
}

static int read_dims(struct ak_spec *s, const cJSON *dims, struct ak_err *err) {
    size_t n = (size_t)cJSON_GetArraySize(dims);
    s->dims = ak_arena_alloc(&s->arena, n * sizeof *s->dims);
    s->dim_values = ak_arena_alloc(&s->arena, n * sizeof *s->dim_values);
    const cJSON *d;
    cJSON_ArrayForEach(d, dims) {
        s->dims[s->ndims] = ak_arena_strdup(&s->arena, d->string);
        if (ak_json_as_i64(d, &s->dim_values[s->ndims], err)) return ak_fail_in(err, "dimension '%s'", d->string);
        s->ndims++;
    }
    return 0;
}

static int read_tree(struct ak_spec *s, const cJSON *o, const char *path, struct ak_err *err) {
    const char *name, *type, *dtype, *why;
    const cJSON *dims, *attrs, *graphs, *cases, *item;
    if (ak_json_check_format(o, "ak-spec", 1, path, "ak-extract", err) || ak_json_str(o, "name", &name, err) ||
        ak_json_str(o, "type", &type, err) || ak_json_str(o, "dtype", &dtype, err) ||
        ak_json_object(o, "dims", &dims, err) || ak_json_object(o, "attrs", &attrs, err) ||
        ak_json_array(o, "graphs", &graphs, err) || ak_json_array(o, "cases", &cases, err) ||
        ak_json_num(o, "flops", &s->flops, err) || ak_json_num(o, "bytes", &s->bytes, err) ||
        ak_json_i64(o, "calls", &s->calls, err) || ak_json_str(o, "why_tol", &why, err))
        return -1;
    s->name = ak_arena_strdup(&s->arena, name);
    s->type = ak_arena_strdup(&s->arena, type);
    s->why_tol = ak_arena_strdup(&s->arena, why);
    int d = ak_dtype_from_name(dtype);
    if (d < 0) return ak_fail(err, AK_EXIT_INPUT, "unknown dtype '%s'", dtype);
    s->dtype = (enum ak_dtype)d;
    if (read_dims(s, dims, err) || ak_attrs_from_json(attrs, &s->arena, &s->attrs, &s->nattrs, err)) return -1;

    s->graphs = ak_calloc((size_t)cJSON_GetArraySize(graphs), sizeof *s->graphs);
    cJSON_ArrayForEach(item, graphs) {
        struct ak_graph *g = &s->graphs[s->ngraphs++];
        ak_graph_init(g);
        if (ak_graph_from_json(g, item, path, err)) return ak_fail_in(err, "graph %zu", s->ngraphs - 1);
    }
    s->cases = ak_arena_alloc(&s->arena, (size_t)cJSON_GetArraySize(cases) * sizeof *s->cases);
    cJSON_ArrayForEach(item, cases) {
        if (read_case(s, item, &s->cases[s->ncases], err)) return ak_fail_in(err, "case %zu", s->ncases);
        s->ncases++;
    }
    if (!s->ncases || strcmp(s->cases[0].stage, "own")) return ak_fail(err, AK_EXIT_INPUT, "the first case is not the spec's own");
    return 0;
}

int ak_spec_read(struct ak_spec *s, const char *path, struct ak_err *err) {
    *s = (struct ak_spec){0};
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    char *file = folder ? ak_path_join(path, "spec.json") : ak_strdup(path);
    cJSON *o = ak_json_read(file, err);
    int rc = o ? read_tree(s, o, file, err) : -1;
    if (rc && o) ak_fail_in(err, "'%s'", file);
    if (rc) ak_spec_release(s);
    cJSON_Delete(o);
    free(file);
    return rc;
}

void ak_spec_release(struct ak_spec *s) {
    for (size_t i = 0; i < s->ngraphs; i++)
        ak_graph_release(&s->graphs[i]);
    free(s->graphs);
    ak_arena_release(&s->arena);
    *s = (struct ak_spec){0};
}
