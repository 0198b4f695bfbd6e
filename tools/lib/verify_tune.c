/* The baseline at its best: a library may be slower on all threads than on one (OpenBLAS is, where a
 * product is small), so each of the opponents' steps runs on whichever serves the model better. The
 * optimised model's opponents run as the baseline's do: what differs is the kept kernels alone. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "stats.h"
#include "verify_run.h"

enum { ONE, ALL, MIXED, CHOICES, RUNS = 5 };

static bool vendor(const struct ak_exec *x, size_t step) { return strcmp(ak_exec_step_info(x, step).by, "vendor") == 0; }

/* What a step of opt runs on: as the baseline's own step for the same node does. */
int ak_verify_threads(const struct ak_exec *base, const struct ak_exec *opt, size_t step) {
    if (!vendor(opt, step)) return 0;
    int node = ak_exec_step_info(opt, step).node;
    for (size_t i = 0; i < ak_exec_nsteps(base); i++)
        if (ak_exec_step_info(base, i).node == node && vendor(base, i)) return ak_exec_step_info(base, i).threads;
    return 0;
}

/* One step, whose inputs are there, by itself. */
int ak_verify_tune_step(struct ak_exec *x, size_t step, struct ak_err *err) {
    double best[MIXED] = {INFINITY, INFINITY}, us;
    for (int i = 0; i < MIXED * RUNS; i++) {
        ak_exec_set_threads(x, step, vendor(x, step) && i % MIXED == ONE);
        if (ak_exec_step(x, step, &us, err)) return -1;
        best[i % MIXED] = fmin(best[i % MIXED], us);
    }
    ak_exec_set_threads(x, step, vendor(x, step) && best[ONE] < best[ALL]);
    return 0;
}

struct tuning {
    struct ak_verify_run *v;
    struct ak_exec *x;
    size_t nsteps;
    double *us[MIXED];          /* by step, the least */
    double total[CHOICES][RUNS];
};

static void choose(struct tuning *t, int choice) {
    for (size_t i = 0; i < t->nsteps; i++)
        ak_exec_set_threads(t->x, i, vendor(t->x, i) && (choice == ONE || (choice == MIXED && t->us[ONE][i] < t->us[ALL][i])));
}

static int try(struct tuning *t, int choice, int run, double *step_us, struct ak_err *err) {
    choose(t, choice);
    if (ak_exec_run(t->x, t->v->inputs, NULL, step_us, err)) return -1;
    t->total[choice][run] = 0;
    for (size_t i = 0; i < t->nsteps; i++) {
        t->total[choice][run] += step_us[i];
        if (choice != MIXED) t->us[choice][i] = fmin(t->us[choice][i], step_us[i]);
    }
    return 0;
}

/* The mixture is made of what was best beside other neighbours, so it has to prove itself. */
int ak_verify_tune(struct ak_verify_run *v, struct ak_exec *base, struct ak_exec *opt, struct ak_err *err) {
    struct tuning t = {.v = v, .x = base, .nsteps = ak_exec_nsteps(base)};
    double *step_us = ak_calloc(t.nsteps + 1, sizeof *step_us), median[CHOICES];
    int rc = 0, best = ONE, runs = RUNS;
    for (int c = ONE; c < MIXED; c++) {
        t.us[c] = ak_calloc(t.nsteps + 1, sizeof *t.us[c]);
        for (size_t i = 0; i < t.nsteps; i++)
            t.us[c][i] = INFINITY;
    }
    for (int pass = 0; pass < 2; pass++) /* the first to fill the table */
        for (int run = 0; run < runs && !rc; run++) {
            for (int c = ONE; c < (pass ? CHOICES : MIXED) && !rc; c++)
                rc = try(&t, c, run, step_us, err);
            if (t.total[ONE][0] > 2e5) runs = 1; /* what takes so long is not decided by noise */
        }
    for (int c = ONE; c < CHOICES; c++) {
        median[c] = ak_median(t.total[c], (size_t)runs);
        if (median[c] < median[best]) best = c;
    }
    choose(&t, best);
    for (size_t i = 0; i < ak_exec_nsteps(opt); i++)
        ak_exec_set_threads(opt, i, ak_verify_threads(base, opt, i));
    free(step_us);
    free(t.us[ONE]);
    free(t.us[ALL]);
    return rc;
}
