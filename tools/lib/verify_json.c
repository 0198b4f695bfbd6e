/* verify.json. */
#include <math.h>
#include <stdlib.h>

#include "host.h"
#include "json.h"
#include "stats.h"
#include "verify.h"

static void add_times(cJSON *o, const struct ak_verify_result *r) {
    size_t n = r->npairs;
    double *ratio = ak_malloc((n + 1) * sizeof *ratio);
    for (size_t i = 0; i < n; i++)
        ratio[i] = r->base_us[i] / r->opt_us[i];
    struct ak_interval s = ak_median_interval(ratio, n, 0.99);
    ak_json_add_num(o, "speedup", s.median);
    ak_json_add_num(o, "speedup_low", s.low);
    ak_json_add_num(o, "speedup_high", s.high);
    ak_json_add_num(o, "baseline_ms", ak_median(r->base_us, n) / 1e3);
    ak_json_add_num(o, "optimized_ms", ak_median(r->opt_us, n) / 1e3);
    ak_json_add_i64(o, "pairs", (int64_t)n);
    ak_json_add_i64(o, "preempted", r->preempted);
    ak_json_add_num(o, "prepare_ms", r->prepare_us / 1e3);
    free(ratio);
}

static void add_outputs(cJSON *o, const struct ak_verify_result *r, const struct ak_graph *g) {
    cJSON *list = cJSON_AddArrayToObject(o, "outputs");
    for (size_t i = 0; i < g->noutputs; i++) {
        const struct ak_verify_output *out = &r->outputs[i];
        cJSON *e = cJSON_CreateObject();
        cJSON_AddStringToObject(e, "name", out->name);
        ak_json_add_num(e, "scale", out->scale);
        ak_json_add_num(e, "err_base", out->err_base);
        ak_json_add_num(e, "err_opt", out->err_opt);
        ak_json_add_num(e, "tol", out->tol);
        cJSON_AddBoolToObject(e, "ok", out->ok);
        cJSON_AddItemToArray(list, e);
    }
}

static void add_kernels(cJSON *o, const struct ak_kept_plan *p) {
    cJSON *kernels = cJSON_AddArrayToObject(o, "kernels"), *left = cJSON_AddArrayToObject(o, "not_replaced"),
          *blame = cJSON_AddArrayToObject(o, "blame");
    for (size_t i = 0; i < p->nspecs; i++) {
        const struct ak_kept *k = &p->specs[i];
        cJSON *e = cJSON_CreateObject();
        cJSON_AddStringToObject(e, "spec", k->spec);
        cJSON_AddStringToObject(e, "type", k->type);
        ak_json_add_i64(e, "sites", (int64_t)k->sites);
        if (!k->kernel) {
            cJSON_AddStringToObject(e, "why", k->why);
            cJSON_AddItemToArray(left, e);
            continue;
        }
        ak_json_add_i64(e, "calls", (int64_t)k->calls);
        cJSON_AddBoolToObject(e, "ran", k->sites > 0 && k->ran == k->sites);
        cJSON_AddItemToArray(kernels, e);
        if (k->blamed) cJSON_AddItemToArray(blame, cJSON_CreateString(k->spec));
    }
}

double ak_verify_reference_share(const struct ak_verify_result *r) {
    double total = 0, reference = 0;
    for (size_t i = 0; i < r->nsteps; i++) {
        total += r->steps[i].baseline_us;
        reference += r->steps[i].reference_us;
    }
    return total > 0 ? reference / total : 0;
}

static void add_steps(cJSON *o, const struct ak_verify_result *r) {
    cJSON *list = cJSON_AddArrayToObject(o, "steps");
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct ak_verify_step *s = &r->steps[i];
        cJSON *e = cJSON_CreateObject();
        cJSON_AddStringToObject(e, "what", s->what);
        cJSON_AddStringToObject(e, "by", s->by);
        if (s->spec) cJSON_AddStringToObject(e, "spec", s->spec);
        cJSON_AddBoolToObject(e, "group", s->group);
        ak_json_add_i64(e, "count", (int64_t)s->count);
        ak_json_add_num(e, "baseline_us", s->baseline_us);
        ak_json_add_num(e, "optimized_us", s->optimized_us);
        ak_json_add_num(e, "baseline_reference_us", s->reference_us);
        cJSON_AddItemToArray(list, e);
    }
}

cJSON *ak_verify_to_json(const struct ak_verify_result *r, const struct ak_graph *g, const struct ak_kept_plan *plan,
                         const struct ak_verify_options *opt) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", "ak-verify");
    ak_json_add_i64(o, "version", 1);
    cJSON_AddStringToObject(o, "model", g->name);
    cJSON_AddBoolToObject(o, "match", r->match);
    if (r->reason) cJSON_AddStringToObject(o, "reason", r->reason);
    cJSON_AddStringToObject(o, "method", r->lockstep ? "lockstep" : "interleaved");
    if (r->timed) add_times(o, r);
    add_outputs(o, r, g);
    add_kernels(o, plan);
    ak_json_add_i64(o, "seed", (int64_t)opt->seed);
    add_steps(o, r);
    ak_json_add_num(o, "baseline_reference_share", ak_verify_reference_share(r));
    cJSON_AddItemToObject(o, "host", ak_host_info());
    return o;
}
