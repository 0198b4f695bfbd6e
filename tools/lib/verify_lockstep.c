/* A model too large for memory: truth, baseline and optimised model advance unit by unit, so that
 * each weight is made once for all three and dropped. A step is repeated while its inputs are
 * still there, which times it; the model's time is the sum. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verify_run.h"

enum { REPEATS = 7, TRUTH = 0, BASE = 1, OPT = 2 };

struct lock {
    struct ak_verify_run *v;
    struct ak_exec *x[3];
    size_t at[3]; /* the next step of each */
    size_t repeats;
    double worst; /* err/tol of any group's outputs so far */
};

static size_t steps_of_unit(const struct ak_exec *x, size_t from, size_t unit) {
    size_t n = 0;
    while (from + n < ak_exec_nsteps(x) && ak_exec_step_info(x, from + n).unit == unit)
        n++;
    return n;
}

static int run_one(struct lock *l, int who, size_t step, size_t repeat, struct ak_verify_step *row, struct ak_err *err) {
    double us;
    if (ak_exec_step(l->x[who], step, &us, err)) return -1;
    if (who == BASE) {
        l->v->r->base_us[repeat] += us;
        ak_verify_add_base(row, l->x[BASE], step, us / (double)l->repeats);
    } else {
        l->v->r->opt_us[repeat] += us;
        row->optimized_us += us / (double)l->repeats;
    }
    return 0;
}

/* Steps i of both sides (either may have fewer) in turn, after a run to warm up. */
static int time_steps(struct lock *l, size_t i, const size_t *n, struct ak_verify_step *row, struct ak_err *err) {
    if (i < n[BASE] && ak_verify_tune_step(l->x[BASE], l->at[BASE] + i, err)) return -1;
    if (i < n[OPT]) ak_exec_set_threads(l->x[OPT], l->at[OPT] + i, ak_verify_threads(l->x[BASE], l->x[OPT], l->at[OPT] + i));
    if (i < n[OPT] && ak_exec_step(l->x[OPT], l->at[OPT] + i, NULL, err)) return -1;
    for (size_t k = 0; k < l->repeats; k++)
        for (int turn = 0; turn < 2; turn++) {
            int who = (k + (size_t)turn) % 2 ? OPT : BASE;
            if (i < n[who] && run_one(l, who, l->at[who] + i, k, row, err)) return -1;
        }
    return 0;
}

/* How a kept kernel's own outputs stand against truth, while all three are at hand. An error is
 * inherited by all that follows, so the one to blame is where it grows most. */
static void check_group(struct lock *l, int group) {
    struct ak_kept_plan *p = l->v->plan;
    const struct ak_group *gr = &p->groups[group];
    if (!gr->kernel) return;
    struct ak_kept *spec = &p->specs[p->spec_of[group]];
    for (size_t i = 0; i < gr->nargs; i++) {
        if (gr->args[i].role != AK_ROLE_OUTPUT) continue;
        struct ak_tensor t[3];
        for (int who = 0; who < 3; who++)
            t[who] = ak_exec_value(l->x[who], gr->args[i].value);
        if (!t[TRUTH].data || !t[BASE].data || !t[OPT].data) continue;
        struct ak_diff b = ak_diff_of(&t[BASE], &t[TRUTH]), o = ak_diff_of(&t[OPT], &t[TRUTH]);
        double ratio = o.err / ak_output_tol(&t[TRUTH], b.scale, isfinite(b.err) ? b.err : 0);
        if (ratio > l->worst) {
            spec->growth = fmax(spec->growth, ratio / fmax(l->worst, 1));
            l->worst = ratio;
        }
    }
}

static int run_unit(struct lock *l, size_t unit, struct ak_err *err) {
    size_t n[3];
    for (int who = 0; who < 3; who++)
        n[who] = steps_of_unit(l->x[who], l->at[who], unit);
    for (size_t i = 0; i < n[TRUTH]; i++)
        if (ak_exec_step(l->x[TRUTH], l->at[TRUTH] + i, NULL, err)) return -1;
    struct ak_verify_step *row = ak_verify_row(l->v, l->x[OPT], l->at[OPT]);
    row->count++;
    for (size_t i = 0; i < n[BASE] || i < n[OPT]; i++)
        if (time_steps(l, i, n, row, err)) return -1;
    int group = ak_exec_step_info(l->x[OPT], l->at[OPT]).group;
    if (group >= 0) check_group(l, group);
    for (int who = 0; who < 3; who++)
        l->at[who] += n[who];
    return 0;
}

static void say(const struct lock *l, size_t unit, size_t nunits, time_t *last) {
    time_t now = time(NULL);
    if (l->v->opt->quiet || (now - *last < 5 && unit + 1 < nunits)) return;
    *last = now;
    fprintf(stderr, "%s: lock-step: %zu of %zu (%s)\n", ak_tool, unit + 1, nunits,
            l->v->g->nodes[ak_exec_step_info(l->x[OPT], l->at[OPT] - 1).node].name);
}

static void compare_outputs(struct lock *l) {
    const struct ak_graph *g = l->v->g;
    struct ak_tensor *t[3];
    for (int who = 0; who < 3; who++) {
        t[who] = ak_calloc(g->noutputs + 1, sizeof *t[who]);
        for (size_t i = 0; i < g->noutputs; i++)
            t[who][i] = ak_exec_value(l->x[who], g->outputs[i]);
    }
    ak_verify_outputs(l->v, t[TRUTH], t[BASE], t[OPT]);
    for (int who = 0; who < 3; who++)
        free(t[who]);
    struct ak_kept *blamed = NULL;
    for (size_t i = 0; i < l->v->plan->nspecs; i++) {
        struct ak_kept *k = &l->v->plan->specs[i];
        if (k->kernel && (!blamed || k->growth > blamed->growth)) blamed = k;
    }
    if (blamed && !l->v->r->match) blamed->blamed = true;
}

int ak_verify_lockstep(struct ak_verify_run *v, const struct ak_group *plain, struct ak_err *err) {
    struct lock l = {.v = v, .repeats = v->opt->pairs < REPEATS ? (size_t)v->opt->pairs : REPEATS};
    v->r->base_us = ak_calloc(l.repeats + 1, sizeof(double));
    v->r->opt_us = ak_calloc(l.repeats + 1, sizeof(double));
    v->r->npairs = l.repeats;
    v->r->match = true;
    int rc = -1;
    for (int who = 0; who < 3; who++) {
        l.x[who] = ak_verify_exec(v, who == TRUTH ? AK_BACKEND_REFERENCE : AK_BACKEND_VENDOR, who == OPT ? v->plan->groups : plain, err);
        if (!l.x[who] || ak_exec_begin(l.x[who], v->inputs, err)) goto out;
    }
    time_t last = time(NULL);
    size_t nunits = ak_exec_nunits(l.x[OPT]);
    long before = ak_verify_preempted();
    for (size_t unit = 0; unit < nunits; unit++) {
        if (run_unit(&l, unit, err)) goto out;
        say(&l, unit, nunits, &last);
    }
    v->r->preempted = ak_verify_preempted() - before;
    compare_outputs(&l);
    ak_verify_count(v, l.x[OPT]);
    v->r->timed = l.repeats > 0;
    rc = 0;
out:
    for (int who = 0; who < 3; who++)
        ak_exec_free(l.x[who]);
    return rc;
}
