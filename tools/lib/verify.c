/* Truth is the reference, the baseline runs the plan's groups on the opponents, the optimised model
 * differs from it in the kept kernels alone: so a speedup is theirs. */
#include "verify.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "host.h"
#include "stats.h"
#include "verify_run.h"

double ak_output_tol(const struct ak_tensor *want, double scale, double err_base) {
    /* Storing a result rounds it by eps/2; where the baseline happens to be nearer than that to
     * truth, another order of the same sums may still be a few last places away. */
    return fmax(2 * err_base, 4 * ak_dtype_eps(want->dtype) * scale);
}

/* ---- executors ---- */

static struct ak_group *without_kernels(const struct ak_kept_plan *p) {
    struct ak_group *groups = ak_memdup(p->groups, (p->ngroups + 1) * sizeof *groups);
    for (size_t i = 0; i < p->ngroups; i++)
        groups[i].kernel = NULL;
    return groups;
}

struct ak_exec *ak_verify_exec(struct ak_verify_run *v, enum ak_backend backend, const struct ak_group *groups, struct ak_err *err) {
    struct ak_exec_options o = {.backend = backend,
                                .groups = groups,
                                .ngroups = v->plan->ngroups,
                                .vendor_dir = v->opt->vendor_dir,
                                .weights = v->weights,
                                .packed_cap = v->r->lockstep ? 0 : SIZE_MAX,
                                .verbose = v->opt->verbose};
    return ak_exec_new(v->g, &o, err);
}

static struct ak_tensor *copy_outputs(const struct ak_graph *g, const struct ak_tensor *out) {
    struct ak_tensor *copy = ak_calloc(g->noutputs + 1, sizeof *copy);
    for (size_t i = 0; i < g->noutputs; i++)
        copy[i] = ak_tensor_copy(&out[i]);
    return copy;
}

static void free_outputs(const struct ak_graph *g, struct ak_tensor *out) {
    for (size_t i = 0; out && i < g->noutputs; i++)
        free(out[i].data);
    free(out);
}

/* One run; the outputs are the caller's. NULL on error. */
static struct ak_tensor *run_once(struct ak_verify_run *v, struct ak_exec *x, struct ak_err *err) {
    struct ak_tensor *out = ak_calloc(v->g->noutputs + 1, sizeof *out), *copy = NULL;
    if (ak_exec_run(x, v->inputs, out, NULL, err) == 0) copy = copy_outputs(v->g, out);
    free(out);
    return copy;
}

/* ---- comparison ---- */

static void judge_outputs(struct ak_verify_run *v, const struct ak_tensor *truth, const struct ak_tensor *base, const struct ak_tensor *opt) {
    for (size_t i = 0; i < v->g->noutputs; i++) {
        struct ak_diff b = ak_diff_of(&base[i], &truth[i]), o = ak_diff_of(&opt[i], &truth[i]);
        /* where the baseline itself turns non-finite there is nothing to hold a kernel to */
        double err_base = isfinite(b.err) ? b.err : 0;
        struct ak_verify_output *out = &v->r->outputs[i];
        *out = (struct ak_verify_output){.name = v->g->values[v->g->outputs[i]].name, .scale = b.scale, .err_base = b.err, .err_opt = o.err};
        out->tol = ak_output_tol(&truth[i], b.scale, err_base);
        out->ok = o.err <= out->tol;
    }
}

static bool all_ok(const struct ak_verify_run *v) {
    for (size_t i = 0; i < v->g->noutputs; i++)
        if (!v->r->outputs[i].ok) return false;
    return true;
}

void ak_verify_reason(struct ak_verify_result *r, const char *fmt, ...) {
    if (r->reason) return;
    va_list ap;
    va_start(ap, fmt);
    char msg[512];
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    r->reason = ak_strdup(msg);
    r->match = false;
}

void ak_verify_outputs(struct ak_verify_run *v, const struct ak_tensor *truth, const struct ak_tensor *base, const struct ak_tensor *opt) {
    judge_outputs(v, truth, base, opt);
    for (size_t i = 0; i < v->g->noutputs; i++)
        if (!isfinite(v->r->outputs[i].err_base))
            ak_verify_reason(v->r, "output '%s' of the baseline itself is not finite where truth is, or the other way round",
                             v->r->outputs[i].name);
        else if (!v->r->outputs[i].ok)
            ak_verify_reason(v->r, "output '%s' is off by %.3g, of a scale of %.3g (allowed: %.3g)", v->r->outputs[i].name,
                             v->r->outputs[i].err_opt, v->r->outputs[i].scale, v->r->outputs[i].tol);
}

/* Every group of a kept kernel must have run it. */
void ak_verify_count(struct ak_verify_run *v, struct ak_exec *opt) {
    for (size_t i = 0; i < ak_exec_nsteps(opt); i++) {
        struct ak_step_info s = ak_exec_step_info(opt, i);
        if (strcmp(s.by, "kernel") != 0 || s.calls == 0) continue;
        struct ak_kept *k = &v->plan->specs[v->plan->spec_of[s.group]];
        k->ran++;
        k->calls += s.calls;
        v->r->prepare_us += s.prepare_us;
    }
    for (size_t i = 0; i < v->plan->nspecs; i++) {
        const struct ak_kept *k = &v->plan->specs[i];
        if (k->kernel && (k->ran < k->sites || k->sites == 0))
            ak_verify_reason(v->r, "the kernel of '%s' ran at %zu of its %zu call sites", k->spec, k->ran, k->sites);
    }
}

/* ---- blame ---- */

struct trial {
    struct ak_verify_run *v;
    const struct ak_tensor *truth, *base;
    struct ak_verify_output *outputs; /* scratch */
};

/* Whether the model is right with the kernels of specs a and b (b may be a) alone: 1, 0, -1 on error. */
static int right_with(struct trial *t, size_t a, size_t b, struct ak_err *err) {
    struct ak_verify_run *v = t->v;
    struct ak_group *groups = without_kernels(v->plan);
    for (size_t i = 0; i < v->plan->ngroups; i++)
        if ((size_t)v->plan->spec_of[i] == a || (size_t)v->plan->spec_of[i] == b) groups[i].kernel = v->plan->groups[i].kernel;
    struct ak_exec *x = ak_verify_exec(v, AK_BACKEND_VENDOR, groups, err);
    struct ak_tensor *out = x ? run_once(v, x, err) : NULL;
    int rc = -1;
    if (out) {
        struct ak_verify_output *seen = v->r->outputs;
        v->r->outputs = t->outputs;
        judge_outputs(v, t->truth, t->base, out);
        rc = all_ok(v);
        v->r->outputs = seen;
    }
    free_outputs(v->g, out);
    ak_exec_free(x);
    free(groups);
    return rc;
}

static int find_blame(struct trial *t, struct ak_err *err) {
    struct ak_kept_plan *p = t->v->plan;
    bool any = false;
    for (size_t i = 0; i < p->nspecs; i++) {
        if (!p->specs[i].kernel) continue;
        int ok = right_with(t, i, i, err);
        if (ok < 0) return -1;
        p->specs[i].blamed = !ok;
        any |= !ok;
    }
    for (size_t i = 0; i < p->nspecs && !any; i++)
        for (size_t j = i + 1; j < p->nspecs && !any; j++) {
            if (!p->specs[i].kernel || !p->specs[j].kernel) continue;
            int ok = right_with(t, i, j, err);
            if (ok < 0) return -1;
            p->specs[i].blamed = p->specs[j].blamed = any = !ok;
        }
    for (size_t i = 0; i < p->nspecs && !any; i++)
        p->specs[i].blamed = p->specs[i].kernel != NULL;
    return 0;
}

/* ---- timing ---- */

/* The row of the summary for a unit: what it is is said by its first step of the optimised model. */
struct ak_verify_step *ak_verify_row(struct ak_verify_run *v, const struct ak_exec *opt, size_t step) {
    struct ak_step_info s = ak_exec_step_info(opt, step);
    const struct ak_group *group = s.group >= 0 ? &v->plan->groups[s.group] : NULL;
    const char *what = group ? group->type : s.what, *spec = group ? group->spec : NULL;
    struct ak_verify_result *r = v->r;
    for (size_t i = 0; i < r->nsteps; i++)
        if (strcmp(r->steps[i].what, what) == 0 && strcmp(r->steps[i].by, s.by) == 0 && r->steps[i].spec == spec) return &r->steps[i];
    AK_GROW(r->steps, r->nsteps, r->cap_steps);
    r->steps[r->nsteps] = (struct ak_verify_step){.what = what, .by = s.by, .spec = spec, .group = group != NULL};
    return &r->steps[r->nsteps++];
}

void ak_verify_add_base(struct ak_verify_step *row, const struct ak_exec *base, size_t step, double us) {
    row->baseline_us += us;
    if (strcmp(ak_exec_step_info(base, step).by, "reference") == 0) row->reference_us += us;
}

long ak_verify_preempted(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_nivcsw : 0;
}

static int timed_run(struct ak_verify_run *v, struct ak_exec *x, double *us, double *step_us, struct ak_err *err) {
    double from = ak_now_us();
    if (ak_exec_run(x, v->inputs, NULL, step_us, err)) return -1;
    *us = ak_now_us() - from;
    return 0;
}

struct samples { /* times of every step, pair by pair */
    double *us;
    size_t nsteps;
};

static double *sample(const struct samples *s, size_t pair) { return s->us + pair * s->nsteps; }

static double step_median(const struct samples *s, size_t step, size_t npairs, double *column) {
    for (size_t i = 0; i < npairs; i++)
        column[i] = sample(s, i)[step];
    return ak_median(column, npairs);
}

static void summarise(struct ak_verify_run *v, struct ak_exec *base, struct ak_exec *opt, const struct samples *sb, const struct samples *so) {
    size_t n = v->r->npairs, *row_of = ak_calloc(ak_exec_nunits(opt) + 1, sizeof *row_of);
    double *column = ak_malloc((n + 1) * sizeof *column);
    for (size_t i = 0; i < so->nsteps; i++) {
        struct ak_step_info s = ak_exec_step_info(opt, i);
        bool first = i == 0 || ak_exec_step_info(opt, i - 1).unit != s.unit;
        if (first) {
            struct ak_verify_step *row = ak_verify_row(v, opt, i);
            row_of[s.unit] = (size_t)(row - v->r->steps);
            row->count++;
        }
        v->r->steps[row_of[s.unit]].optimized_us += step_median(so, i, n, column);
    }
    for (size_t i = 0; i < sb->nsteps; i++)
        ak_verify_add_base(&v->r->steps[row_of[ak_exec_step_info(base, i).unit]], base, i, step_median(sb, i, n, column));
    free(row_of);
    free(column);
}

enum { MIN_PAIRS = 5 };

static int time_both(struct ak_verify_run *v, struct ak_exec *base, struct ak_exec *opt, struct ak_err *err) {
    struct ak_verify_result *r = v->r;
    size_t want = (size_t)v->opt->pairs;
    struct samples sb = {.nsteps = ak_exec_nsteps(base)}, so = {.nsteps = ak_exec_nsteps(opt)};
    sb.us = ak_calloc(want * sb.nsteps + 1, sizeof *sb.us);
    so.us = ak_calloc(want * so.nsteps + 1, sizeof *so.us);
    r->base_us = ak_calloc(want + 1, sizeof *r->base_us);
    r->opt_us = ak_calloc(want + 1, sizeof *r->opt_us);
    double warm;
    int rc = ak_verify_tune(v, base, opt, err) || timed_run(v, base, &warm, NULL, err) || timed_run(v, opt, &warm, NULL, err) ? -1 : 0;
    double start = ak_now_us(), said = start;
    long before = ak_verify_preempted();
    for (size_t i = 0; i < want && !rc; i++) {
        if (i >= MIN_PAIRS && ak_now_us() - start > v->opt->budget_s * 1e6) break;
        if (i % 2 == 0)
            rc = timed_run(v, base, &r->base_us[i], sample(&sb, i), err) || timed_run(v, opt, &r->opt_us[i], sample(&so, i), err);
        else
            rc = timed_run(v, opt, &r->opt_us[i], sample(&so, i), err) || timed_run(v, base, &r->base_us[i], sample(&sb, i), err);
        r->npairs = i + 1;
        if (!v->opt->quiet && ak_now_us() - said > 5e6) {
            said = ak_now_us();
            fprintf(stderr, "%s: %zu pairs timed, %.0f s left\n", ak_tool, r->npairs, fmax(0, v->opt->budget_s - (said - start) * 1e-6));
        }
    }
    r->preempted = ak_verify_preempted() - before;
    if (!rc) summarise(v, base, opt, &sb, &so);
    r->timed = !rc && r->npairs > 0;
    free(sb.us);
    free(so.us);
    return rc ? -1 : 0;
}

/* A kernel may be faster alone and slower among its neighbours, whose threads and caches it shares. Those go
 * back to the opponent, and what is left is timed anew, since a choice by one measurement flatters itself. */
static size_t drop_slower(struct ak_verify_run *v) {
    struct ak_kept_plan *p = v->plan;
    size_t dropped = 0;
    for (size_t i = 0; i < v->r->nsteps; i++) {
        const struct ak_verify_step *s = &v->r->steps[i];
        if (!s->spec || strcmp(s->by, "kernel") != 0 || s->optimized_us <= 1.02 * s->baseline_us) continue;
        for (size_t g = 0; g < p->ngroups; g++) {
            struct ak_kept *k = &p->specs[p->spec_of[g]];
            if (k->spec != s->spec) continue;
            p->groups[g].kernel = NULL;
            dropped += k->kernel != NULL;
            k->kernel = NULL;
            k->why = "slower than the opponent in the model";
        }
    }
    return dropped;
}

static void forget_times(struct ak_verify_result *r) {
    free(r->base_us);
    free(r->opt_us);
    r->base_us = r->opt_us = NULL;
    r->nsteps = r->npairs = 0;
    r->timed = false;
}

/* ---- whole runs ---- */

static void progress(const struct ak_verify_run *v, const char *what) {
    if (!v->opt->quiet) fprintf(stderr, "%s: %s\n", ak_tool, what);
}

struct whole {
    struct ak_exec *base, *opt;
    struct ak_tensor *truth, *out_base, *out_opt; /* owned */
};

static int compare_and_time(struct ak_verify_run *v, struct whole *w, struct ak_err *err) {
    progress(v, "baseline and optimised, compared and timed");
    if (!(w->opt = ak_verify_exec(v, AK_BACKEND_VENDOR, v->plan->groups, err)) || !(w->out_opt = run_once(v, w->opt, err))) return -1;
    v->r->match = true;
    ak_verify_outputs(v, w->truth, w->out_base, w->out_opt);
    if (!v->r->match) {
        struct trial t = {v, w->truth, w->out_base, ak_calloc(v->g->noutputs + 1, sizeof *t.outputs)};
        progress(v, "the outputs differ: looking for the kernel to blame");
        int rc = find_blame(&t, err);
        free(t.outputs);
        if (rc) return -1;
    }
    return time_both(v, w->base, w->opt, err);
}

static void release_optimised(struct ak_verify_run *v, struct whole *w) {
    free_outputs(v->g, w->out_opt);
    ak_exec_free(w->opt);
    w->out_opt = NULL;
    w->opt = NULL;
}

static int verify_whole(struct ak_verify_run *v, const struct ak_group *plain, struct ak_err *err) {
    struct whole w = {0};
    int rc = -1;
    progress(v, "truth: the reference");
    struct ak_exec *ref = ak_verify_exec(v, AK_BACKEND_REFERENCE, plain, err);
    if (ref) w.truth = run_once(v, ref, err);
    ak_exec_free(ref);
    if (!w.truth || !(w.base = ak_verify_exec(v, AK_BACKEND_VENDOR, plain, err)) || !(w.out_base = run_once(v, w.base, err))) goto out;
    while (!(rc = compare_and_time(v, &w, err)) && v->r->match && !v->opt->all && drop_slower(v)) {
        forget_times(v->r);
        release_optimised(v, &w);
    }
    if (!rc) ak_verify_count(v, w.opt);
out:
    release_optimised(v, &w);
    free_outputs(v->g, w.truth);
    free_outputs(v->g, w.out_base);
    ak_exec_free(w.base);
    return rc;
}

int ak_verify(const struct ak_graph *g, struct ak_kept_plan *plan, const struct ak_tensor *inputs, const struct ak_verify_options *opt,
              struct ak_verify_result *r, struct ak_err *err) {
    memset(r, 0, sizeof *r);
    r->outputs = ak_calloc(g->noutputs + 1, sizeof *r->outputs);
    /* weights, and at the worst a packed copy of them for each side */
    r->lockstep = opt->lockstep || ak_weights_total(g) > opt->memory / 4;
    struct ak_verify_run v = {.g = g, .plan = plan, .inputs = inputs, .opt = opt, .r = r};
    v.weights = ak_weights_new(g, r->lockstep ? opt->memory / 2 : 0);
    struct ak_group *plain = without_kernels(plan);
    int rc = r->lockstep ? ak_verify_lockstep(&v, plain, err) : verify_whole(&v, plain, err);
    size_t kept = 0;
    for (size_t i = 0; i < plan->nspecs; i++)
        kept += plan->specs[i].kernel != NULL;
    if (!rc && !kept) ak_verify_reason(r, "no kernel was kept: 0 call sites replaced");
    free(plain);
    ak_weights_free(v.weights);
    return rc;
}

void ak_verify_release(struct ak_verify_result *r) {
    free(r->outputs);
    free(r->base_us);
    free(r->opt_us);
    free(r->steps);
    free(r->reason);
    memset(r, 0, sizeof *r);
}
