/* Layers repeat: a call is known by its type, attributes and the layout of its arguments, and two
 * calls of one key take one measurement. */
#include "profile.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "classify.h"
#include "group.h"
#include "host.h"
#include "json.h"
#include "lower.h"
#include "rand.h"
#include "vendor.h"

struct profile {
    const struct ak_graph *g;
    const struct ak_profile_options *opt;
    struct ak_vendor *vendor;
    cJSON *timed; /* key -> microseconds */
    struct ak_ceilings ceilings;
    size_t done, of;
    struct ak_err *err;
};

/* What makes two calls the same for a clock: everything but names. */
static char *call_key(const struct ak_graph *g, const struct ak_group *group) {
    cJSON *o = ak_group_to_json(g, group), *arg;
    cJSON_DeleteItemFromObjectCaseSensitive(o, "nodes");
    cJSON_DeleteItemFromObjectCaseSensitive(o, "spec");
    cJSON_ArrayForEach(arg, cJSON_GetObjectItemCaseSensitive(o, "args")) {
        cJSON_DeleteItemFromObjectCaseSensitive(arg, "value");
        cJSON_DeleteItemFromObjectCaseSensitive(arg, "offset");
    }
    char *key = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return key;
}

struct launch {
    const struct ak_kernel *k;
    struct ak_bound bound;
};
static int launch(void *arg) {
    struct launch *l = arg;
    return l->k->launch(&l->bound.call);
}

/* The fastest opponent's time for a call, on one thread or all; -1 if there is none that does it. */
static int time_vendor(struct profile *p, const struct ak_group *group, double *us) {
    *us = -1;
    for (size_t nth = 0;; nth++) {
        struct launch l = {0};
        if (ak_vendor_find(p->vendor, group->type, nth, &l.k, p->err)) return -1;
        if (!l.k) return 0;
        ak_bound_init(&l.bound, p->g, group, 1);
        int rc = ak_bound_attach(&l.bound, l.k, p->err);
        int all = omp_get_max_threads();
        for (int threads = 1; !rc && threads <= all; threads += all > 1 ? all - 1 : 1) {
            omp_set_num_threads(threads);
            double t = ak_time_us(launch, &l, p->opt->runs, 20, p->opt->budget_us / 2);
            if (t >= 0 && (*us < 0 || t < *us)) *us = t;
        }
        omp_set_num_threads(all);
        ak_bound_release(&l.bound);
        if (rc < 0) return -1;
    }
}

struct reference {
    struct ak_opcall *call;
    struct ak_err *err;
};
static int run_reference(void *arg) {
    struct reference *r = arg;
    return ak_op_run(r->call, r->err);
}

static void *filled(const struct ak_tensor *t, uint64_t seed) {
    int64_t n = ak_extent(t);
    struct ak_tensor flat = ak_tensor_new(t->dtype, 1, &n);
    flat.data = ak_calloc((size_t)n + 1, ak_dtype_size(t->dtype));
    if (ak_dtype_is_float(t->dtype)) ak_rand_fill_normal(&flat, seed, 0, 1);
    return flat.data;
}

/* A node that no opponent does runs in the reference, as it will in the model. */
static int time_reference(struct profile *p, int n, double *us) {
    struct ak_tensor *tensors = ak_calloc(p->g->nvalues + 1, sizeof *tensors);
    struct ak_arena scratch = {0};
    struct ak_opcall call;
    const struct ak_node *node = &p->g->nodes[n];
    for (size_t v = 0; v < p->g->nvalues; v++)
        tensors[v] = p->g->values[v].t;
    for (size_t i = 0; i < node->op->nargs; i++)
        for (size_t j = 0; j < node->args[i].n; j++) {
            int v = node->args[i].ids ? node->args[i].ids[j] : -1;
            if (v < 0 || p->g->values[v].kind == AK_VALUE_INT || tensors[v].data) continue;
            tensors[v].data = p->g->values[v].kind == AK_VALUE_INLINE ? ak_memdup(p->g->values[v].data, (size_t)p->g->values[v].bytes)
                                                                     : filled(&tensors[v], (uint64_t)v);
        }
    int rc = ak_graph_call(p->g, n, tensors, &scratch, &call, p->err) || ak_op_infer(&call, p->err) ? -1 : 0;
    bool works = false;
    for (size_t i = 0; rc == 0 && i < call.nout; i++)
        if (!call.alias[i]) {
            call.out[i].data = filled(&call.out[i], i);
            works = true;
        }
    *us = 0;
    if (rc == 0 && works && !call.is_int) {
        struct reference r = {.call = &call, .err = p->err};
        *us = ak_time_us(run_reference, &r, p->opt->runs, 20, p->opt->budget_us);
        if (*us < 0) rc = ak_fail_in(p->err, "node '%s'", node->name);
    }
    for (size_t i = 0; rc == 0 && i < call.nout; i++)
        if (!call.alias[i]) free(call.out[i].data);
    for (size_t v = 0; v < p->g->nvalues; v++)
        free(tensors[v].data);
    free(tensors);
    ak_arena_release(&scratch);
    return rc;
}

/* Time by key, measured at the first sight of it. n is the node for the reference, or -1. */
static int time_call(struct profile *p, const struct ak_group *group, int n, double *us) {
    char *key = call_key(p->g, group);
    const cJSON *known = ak_json_get(p->timed, key);
    int rc = 0;
    if (known) {
        *us = known->valuedouble;
    } else {
        if (p->opt->progress) p->opt->progress(p->done, p->of, group->type);
        rc = time_vendor(p, group, us);
        if (rc == 0 && *us < 0 && n >= 0) rc = time_reference(p, n, us);
        if (rc == 0) cJSON_AddNumberToObject(p->timed, key, *us);
    }
    free(key);
    return rc;
}

/* Bytes that cross memory once, and operations, of one node; views cost nothing. */
static int node_cost(struct profile *p, int n, double *flops, double *bytes, bool *view) {
    struct ak_arena scratch = {0};
    struct ak_opcall call;
    if (ak_graph_call(p->g, n, NULL, &scratch, &call, p->err) || ak_op_infer(&call, p->err)) {
        ak_arena_release(&scratch);
        return -1;
    }
    *view = true;
    *flops = *bytes = 0;
    for (size_t i = 0; i < call.nout; i++)
        if (!call.alias[i]) {
            *view = false;
            *bytes += (double)ak_tensor_bytes(&call.out[i]);
        }
    if (!*view) *flops = ak_op_flops(&call);
    for (size_t i = 0; i < call.nin && !*view; i++) {
        if (call.in[i].kind == AK_VAL_TENSOR) *bytes += (double)ak_tensor_bytes(call.in[i].t);
        for (size_t j = 0; call.in[i].kind == AK_VAL_TENSORS && j < call.in[i].ts.n; j++)
            if (call.in[i].ts.v[j]) *bytes += (double)ak_tensor_bytes(call.in[i].ts.v[j]);
    }
    ak_arena_release(&scratch);
    return 0;
}

static int node_time(struct profile *p, int n, double *us) {
    struct ak_arena arena = {0};
    struct ak_group group;
    *us = -1;
    int rc = ak_lower(p->g, n, &group, &arena, p->err);
    if (rc == 0) rc = time_call(p, &group, -1, us);
    if (rc >= 0 && *us < 0) {
        rc = ak_lower_aten(p->g, n, &group, &arena, p->err);
        if (rc == 0) rc = time_call(p, &group, n, us);
        if (rc == 1) rc = time_reference(p, n, us);
    }
    ak_arena_release(&arena);
    return rc < 0 ? -1 : 0;
}

/* A ceiling that was measured beside other work may be low; what was seen is possible. */
static void saw(struct profile *p, double flops, double us) {
    if (us > 0 && flops / us * 1e-3 > p->ceilings.f32_gflops) p->ceilings.f32_gflops = flops / us * 1e-3;
}

/* Without f it is only timed, with f written. */
static int write_node(struct profile *p, int n, const char *group, double *total, FILE *f) {
    const struct ak_node *node = &p->g->nodes[n];
    double flops = 0, bytes = 0, us = 0;
    bool view = true;
    if (node_cost(p, n, &flops, &bytes, &view) || (!view && !f && node_time(p, n, &us))) return -1;
    if (f) us = total[n];
    total[n] = us;
    p->done++;
    saw(p, flops, us);
    if (!f) return 0;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kind", "node");
    cJSON_AddStringToObject(o, "node", node->name);
    cJSON_AddStringToObject(o, "op", node->op->name);
    ak_json_add_num(o, "time_us", us);
    ak_json_add_num(o, "flops", flops);
    ak_json_add_num(o, "bytes", bytes);
    if (group)
        cJSON_AddStringToObject(o, "group", group);
    else
        cJSON_AddNullToObject(o, "group");
    cJSON_AddStringToObject(o, "origin", node->origin ? node->origin : "");
    int rc = ak_json_print(f, o);
    cJSON_Delete(o);
    return rc ? ak_fail_errno(p->err, AK_EXIT_IO, "cannot write the profile") : 0;
}

/* {type, dims, attrs (plain), args} as rules/kernels.lua's cost wants it. */
static int group_cost(struct profile *p, const cJSON *o, double *flops, double *bytes) {
    cJSON *arg = cJSON_CreateObject(), *attrs = cJSON_CreateObject();
    const cJSON *a;
    cJSON_AddItemToObject(arg, "type", cJSON_Duplicate(ak_json_get(o, "type"), true));
    cJSON_AddItemToObject(arg, "dims", cJSON_Duplicate(ak_json_get(o, "dims"), true));
    cJSON_AddItemToObject(arg, "args", cJSON_Duplicate(ak_json_get(o, "args"), true));
    cJSON_AddItemToObject(arg, "attrs", attrs);
    cJSON_ArrayForEach(a, ak_json_get(o, "attrs")) cJSON_AddItemToObject(attrs, a->string, cJSON_Duplicate(a->child, true));
    cJSON *cost = ak_rules_call(p->opt->kernels, "cost", arg, p->err);
    int rc = !cost || ak_json_num(cost, "flops", flops, p->err) || ak_json_num(cost, "bytes", bytes, p->err) ? -1 : 0;
    cJSON_Delete(cost);
    cJSON_Delete(arg);
    return rc;
}

static int write_group(struct profile *p, cJSON *o, const double *node_us, FILE *f) {
    struct ak_arena arena = {0};
    struct ak_group group;
    double us = -1, nodes = 0, flops, bytes;
    int rc = ak_group_from_json(&group, p->g, o, &arena, p->err) || time_call(p, &group, -1, &us) ||
                     group_cost(p, o, &flops, &bytes)
                 ? -1
                 : 0;
    for (size_t i = 0; rc == 0 && i < group.nnodes; i++)
        nodes += node_us[group.nodes[i]];
    ak_arena_release(&arena);
    if (rc) return -1;
    p->done++;
    saw(p, flops, us);
    if (!f) return 0;
    const char *bound;
    cJSON_AddStringToObject(o, "kind", "group");
    ak_json_add_num(o, "time_us", us < 0 || nodes < us ? nodes : us); /* the opponent: fused, or op by op, whichever is faster */
    ak_json_add_num(o, "nodes_us", nodes);
    ak_json_add_num(o, "flops", flops);
    ak_json_add_num(o, "bytes", bytes);
    ak_json_add_num(o, "floor_us", ak_floor_us(&p->ceilings, bytes, flops, &bound));
    cJSON_AddStringToObject(o, "bound", bound);
    return ak_json_print(f, o) ? ak_fail_errno(p->err, AK_EXIT_IO, "cannot write the profile") : 0;
}

static int write_header(struct profile *p, FILE *f) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", "ak-profile");
    cJSON_AddNumberToObject(o, "version", 1);
    cJSON_AddStringToObject(o, "graph", p->opt->graph_path);
    cJSON_AddStringToObject(o, "model", p->g->name);
    cJSON_AddItemToObject(o, "host", ak_host_info());
    cJSON_AddItemToObject(o, "ceilings", ak_ceilings_to_json(&p->ceilings));
    int rc = ak_json_print(f, o);
    cJSON_Delete(o);
    return rc ? ak_fail_errno(p->err, AK_EXIT_IO, "cannot write the profile") : 0;
}

/* For each node the type of the largest group that could hold it, NULL for none. */
static const char **best_group(const struct ak_graph *g, const cJSON *groups) {
    const char **type = ak_calloc(g->nnodes + 1, sizeof *type);
    int *size = ak_calloc(g->nnodes + 1, sizeof *size);
    const cJSON *o, *name;
    cJSON *index = cJSON_CreateObject();
    for (size_t n = 0; n < g->nnodes; n++)
        cJSON_AddNumberToObject(index, g->nodes[n].name, (double)n);
    cJSON_ArrayForEach(o, groups) {
        int n = cJSON_GetArraySize(ak_json_get(o, "nodes"));
        cJSON_ArrayForEach(name, ak_json_get(o, "nodes")) {
            int at = ak_json_get(index, name->valuestring)->valueint;
            if (n <= size[at]) continue;
            size[at] = n;
            type[at] = ak_json_get(o, "type")->valuestring;
        }
    }
    cJSON_Delete(index);
    free(size);
    return type;
}

int ak_profile_write(const struct ak_graph *g, const struct ak_profile_options *opt, FILE *f, struct ak_err *err) {
    struct profile p = {.g = g, .opt = opt, .err = err, .timed = cJSON_CreateObject(), .ceilings = *opt->ceilings};
    const char **type = NULL;
    double *node_us = ak_calloc(g->nnodes + 1, sizeof *node_us);
    cJSON *groups = ak_classify(g, opt->classify, err), *o;
    p.vendor = ak_vendor_open(opt->vendor_dir, err);
    int rc = groups && p.vendor ? 0 : -1;
    if (rc == 0) type = best_group(g, groups);
    for (int written = 0; written < 2 && rc == 0; written++) { /* all is timed before a floor is told */
        FILE *to = written ? f : NULL;
        p.of = g->nnodes + (size_t)cJSON_GetArraySize(groups);
        p.done = 0;
        if (to) rc = write_header(&p, to);
        for (size_t n = 0; n < g->nnodes && rc == 0; n++)
            rc = write_node(&p, (int)n, type[n], node_us, to);
        for (o = groups->child; o && rc == 0; o = o->next)
            rc = write_group(&p, o, node_us, to);
    }
    cJSON_Delete(groups);
    cJSON_Delete(p.timed);
    if (p.vendor) ak_vendor_close(p.vendor);
    free(type);
    free(node_us);
    return rc;
}
