/* What the outputs of a case should be, and how far off that they may be: judge.h says how. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "judge_case.h"
#include "mem.h"
#include "rand.h"
#include "walk.h"

/* ---- a graph in double ---- */

static void widen_constant(struct ak_graph *g, struct ak_value *v) {
    int64_t n = v->bytes / (int64_t)ak_dtype_size(v->t.dtype);
    double *wide = ak_arena_alloc(&g->arena, (size_t)n * sizeof *wide + 8);
    ak_load_run(v->t.dtype, v->data, 0, 1, n, wide);
    v->data = wide;
    v->bytes = n * (int64_t)sizeof *wide;
    v->t.dtype = AK_F64;
}

static bool narrow(enum ak_dtype d) { return ak_dtype_is_float(d) && d != AK_F64; }

/* Inputs, constants and conversions that the graph asks for: what lies between follows from them. */
static int widen(struct ak_graph *g, struct ak_err *err) {
    for (size_t i = 0; i < g->nvalues; i++) {
        struct ak_value *v = &g->values[i];
        if (v->kind == AK_VALUE_INT || !narrow(v->t.dtype)) continue;
        if (v->kind == AK_VALUE_INPUT) v->t.dtype = AK_F64; /* its layout stays: the subgraph may take views of it */
        if (v->kind == AK_VALUE_INLINE) widen_constant(g, v);
    }
    for (size_t n = 0; n < g->nnodes; n++) {
        struct ak_node *node = &g->nodes[n];
        for (size_t i = 0; i < node->op->nargs; i++) {
            struct ak_garg *a = &node->args[i];
            bool dtype = strncmp(node->op->args[i].type, "ScalarType", 10) == 0;
            if (dtype && a->kind == AK_GARG_CONST && a->val.kind == AK_VAL_INT && narrow((enum ak_dtype)a->val.i)) a->val.i = AK_F64;
        }
        if (ak_graph_infer(g, (int)n, err)) return -1;
    }
    return 0;
}

/* ---- the longest reduction ---- */

static bool moves_only(const char *name) {
    static const char *const ops[] = {"aten.cat", "aten.stack", "aten.clone", "aten.copy", "aten._to_copy", "aten.to.",
                                      "aten.index", "aten.embedding", "aten.contiguous", "aten.expand", "aten.slice"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strncmp(name, ops[i], strlen(ops[i])) == 0) return true;
    return false;
}

/* The last dim of the first operand: k of a product, the row of a softmax or a norm; or as many
 * elements as become one. */
static double reduction(const struct ak_graph *g, const struct ak_node *n) {
    if (n->op->flags & (AK_OP_POINTWISE | AK_OP_VIEW) || moves_only(n->op->name) || !n->nouts || n->outs[0] < 0) return 1;
    if (n->op->nargs < 1 || n->args[0].kind != AK_GARG_VALUE) return 1;
    const struct ak_tensor *in = &g->values[n->args[0].ids[0]].t, *out = &g->values[n->outs[0]].t;
    double length = in->ndim ? (double)in->shape[in->ndim - 1] : 1, ratio = (double)ak_numel(in) / fmax(1, (double)ak_numel(out));
    if (strstr(n->op->name, "attention") && n->op->nargs > 1 && n->args[1].kind == AK_GARG_VALUE) {
        const struct ak_tensor *k = &g->values[n->args[1].ids[0]].t;
        if (k->ndim > 1) length = fmax(length, (double)k->shape[k->ndim - 2]);
    }
    return fmax(1, fmax(length, ratio));
}

int ak_truth_init(struct ak_truth *t, const struct ak_graph *graph, struct ak_err *err) {
    struct ak_graph *g = (struct ak_graph *)graph; /* the spec's own, which nobody else runs */
    *t = (struct ak_truth){.length = 1};
    if (widen(g, err)) return ak_fail_in(err, "truth in double");
    for (size_t i = 0; i < g->nnodes; i++)
        t->length = fmax(t->length, reduction(g, &g->nodes[i]));
    t->weights = ak_weights_new(g, 0);
    t->exec = ak_exec_new(g, &(struct ak_exec_options){.backend = AK_BACKEND_REFERENCE, .weights = t->weights}, err);
    return t->exec ? 0 : -1;
}

void ak_truth_release(struct ak_truth *t) {
    ak_exec_free(t->exec);
    if (t->weights) ak_weights_free(t->weights);
    *t = (struct ak_truth){0};
}

/* ---- runs ---- */

struct inputs {
    struct ak_tensor t[AK_WORKER_ARGS];
    size_t n;
};

static void inputs_of(struct inputs *in, const struct ak_place *p, const struct ak_image *im) {
    const struct ak_graph *g = p->c->graph;
    in->n = 0;
    for (size_t i = 0; i < im->n; i++) {
        if (!im->data[i]) continue;
        struct ak_tensor from = p->c->args[i].t, *to = &in->t[in->n];
        from.data = im->data[i];
        *to = g->values[g->inputs[in->n++]].t;
        to->data = ak_calloc((size_t)ak_extent(to) + 1, ak_dtype_size(to->dtype));
        ak_copy(to, &from);
    }
}

static void inputs_free(struct inputs *in) {
    for (size_t i = 0; i < in->n; i++)
        free(in->t[i].data);
}

/* Every element a step of relative size d off: all of an argument alike, or each by itself. */
static void disturb(struct inputs *in, double d, bool alike, uint64_t seed) {
    for (size_t i = 0; i < in->n; i++) {
        if (in->t[i].dtype != AK_F64) continue;
        double *x = in->t[i].data, common = 1 + d * (ak_rand_u64(seed, 1000 + i) % 2 ? 1 : -1);
        int64_t n = ak_extent(&in->t[i]);
        uint64_t stream = seed + 1 + i;
#pragma omp parallel for simd if (n > 1 << 16)
        for (int64_t k = 0; k < n; k++)
            x[k] *= alike ? common : 1 + d * (double)ak_rand_normal(stream, (uint64_t)k);
    }
}

static double rms(const double *x, int64_t n) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i])) sum += x[i] * x[i], count++;
    return count ? sqrt(sum / (double)count) : 0;
}

static double unit(enum ak_dtype d) { return ak_dtype_eps(d) / 2; }

/* A sum of equal terms is off by up to L*u/2 (Higham, 4.2), all its errors having one sign. */
static double step_of(const struct ak_truth *t, enum ak_dtype d, bool equal) {
    double u = d == AK_F64 ? unit(AK_F64) : unit(AK_F32), growth = sqrt(t->length);
    if (equal) growth = fmax(growth, t->length / 4);
    return u * growth + (ak_dtype_size(d) == 2 ? unit(d) / 2 : 0);
}

static void raise_noise(struct ak_want *w, size_t o, const double *moved, double *difference) {
    int64_t length = w->out[o].length;
    for (int64_t r = 0; r < w->out[o].rows; r++) {
        for (int64_t i = 0; i < length; i++)
            difference[i] = moved[r * length + i] - w->out[o].value[r * length + i];
        w->out[o].noise[r] = fmax(w->out[o].noise[r], rms(difference, length));
    }
}

static int run_moved(struct ak_want *w, struct ak_truth *t, const struct ak_place *p, const struct ak_image *im, double d, bool alike, uint64_t seed,
                     struct ak_err *err) {
    struct inputs in;
    struct ak_tensor out[AK_WORKER_ARGS];
    inputs_of(&in, p, im);
    disturb(&in, d, alike, seed);
    int rc = ak_exec_run(t->exec, in.t, out, NULL, err);
    for (size_t o = 0; o < w->n && !rc; o++) {
        double *moved = ak_reals(&out[o]), *difference = ak_malloc((size_t)(w->out[o].length + 1) * sizeof *difference);
        raise_noise(w, o, moved, difference);
        free(moved);
        free(difference);
    }
    inputs_free(&in);
    return rc;
}

static void keep_outputs(struct ak_want *w, const struct ak_place *p, const struct ak_tensor *out) {
    for (size_t i = 0; i < p->spec->nargs; i++) {
        if (p->c->args[i].role != AK_ROLE_OUTPUT) continue;
        const struct ak_tensor *t = &p->c->args[i].t;
        int64_t n = ak_numel(t), length = t->ndim && n ? t->shape[t->ndim - 1] : 1;
        size_t o = w->n++;
        w->out[o].arg = i;
        w->out[o].length = length;
        w->out[o].rows = n / length;
        w->out[o].value = ak_reals(&out[o]);
        w->out[o].noise = ak_calloc((size_t)w->out[o].rows + 1, sizeof(double));
        w->out[o].size = ak_calloc((size_t)w->out[o].rows + 1, sizeof(double));
        for (int64_t r = 0; r < w->out[o].rows; r++)
            w->out[o].size[r] = rms(w->out[o].value + r * length, length);
    }
}

/* Without runs that measure it. A short row that is small by cancellation is as noisy as its neighbours. */
static void assume_noise(struct ak_want *w, double d) {
    for (size_t o = 0; o < w->n; o++) {
        double all = rms(w->out[o].value, w->out[o].rows * w->out[o].length);
        for (int64_t r = 0; r < w->out[o].rows; r++)
            w->out[o].noise[r] = d * (w->out[o].length < 16 ? fmax(all, w->out[o].size[r]) : w->out[o].size[r]);
    }
}

int ak_want_make(struct ak_want *w, struct ak_truth *t, const struct ak_place *p, const struct ak_image *im, bool full, uint64_t seed, struct ak_err *err) {
    double d = step_of(t, p->spec->dtype, strcmp(p->c->family, "equal") == 0);
    *w = (struct ak_want){.tol = p->c->tol, .floor = fmax(d, unit(p->spec->dtype))};
    struct inputs in;
    struct ak_tensor out[AK_WORKER_ARGS];
    inputs_of(&in, p, im);
    int rc = ak_exec_run(t->exec, in.t, out, NULL, err);
    if (!rc) keep_outputs(w, p, out);
    inputs_free(&in);
    if (rc) return -1;
    if (!full) {
        assume_noise(w, d);
        return 0;
    }
    /* the mean of few squares, or of such as move together (a row of attention), may be small by chance */
    rc = run_moved(w, t, p, im, d, true, seed, err);
    for (int i = 1; i <= 5 && !rc; i++)
        rc = run_moved(w, t, p, im, d, false, seed + (uint64_t)i * 100, err);
    return rc;
}

void ak_want_near(struct ak_want *w, const struct ak_place *p, const struct ak_tensor *t, double step) {
    struct ak_tensor out[AK_WORKER_ARGS];
    size_t n = 0;
    for (size_t i = 0; i < p->spec->nargs; i++)
        if (p->c->args[i].role == AK_ROLE_OUTPUT) out[n++] = t[i];
    *w = (struct ak_want){.tol = 2 * p->c->tol, .floor = step, .opponents = true};
    keep_outputs(w, p, out);
    assume_noise(w, step);
}

void ak_want_release(struct ak_want *w) {
    if (w->also) ak_want_release(w->also);
    free(w->also);
    for (size_t o = 0; o < w->n; o++) {
        free(w->out[o].row);
        free(w->out[o].value);
        free(w->out[o].noise);
        free(w->out[o].size);
    }
    *w = (struct ak_want){0};
}

/* ---- comparison ---- */

static double largest(enum ak_dtype d) {
    return d == AK_F16 ? 65504 : d == AK_BF16 ? 0x1.fep127 : d == AK_F32 ? (double)__FLT_MAX__ : __DBL_MAX__;
}
/* What flushing to zero, or the spacing of the smallest numbers, may take. */
static double smallest(enum ak_dtype d) { return d == AK_F16 ? 0x1p-24 : d == AK_F64 ? __DBL_MIN__ : (double)__FLT_MIN__; }

static double allowed(const struct ak_want *w, size_t o, int64_t row, double truth, enum ak_dtype d) {
    double noise = w->out[o].noise[row], size = w->out[o].size[row];
    return w->tol * ((noise + w->floor * size) * (size > 0 ? 1 + fabs(truth) / size : 1)) + smallest(d);
}

/* Truth beyond the largest number may be that number's neighbourhood or infinity. */
static bool matches(double got, double want, double tol, enum ak_dtype d) {
    if (isnan(want)) return isnan(got);
    if (isinf(want)) return got == want;
    double max = largest(d);
    if (fabs(want) + tol >= max && isinf(got)) return signbit(got) == signbit(want);
    if (fabs(want) > max) return isinf(got) ? signbit(got) == signbit(want) : fabs(want) - max <= tol && fabs(got - copysign(max, want)) <= tol;
    return fabs(got - want) <= tol; /* false for NaN */
}

static void index_text(char *to, size_t size, const struct ak_tensor *t, int64_t k) {
    int64_t at[AK_MAX_DIMS];
    for (int i = t->ndim - 1; i >= 0; i--) {
        at[i] = k % t->shape[i];
        k /= t->shape[i];
    }
    size_t len = (size_t)snprintf(to, size, "[");
    for (int i = 0; i < t->ndim && len < size; i++)
        len += (size_t)snprintf(to + len, size - len, "%s%lld", i ? "," : "", (long long)at[i]);
    if (len < size) snprintf(to + len, size - len, "]");
}

/* Element k of an output that is wanted is this one of the kernel's. */
static int64_t place_of(const struct ak_want *w, size_t o, int64_t k) {
    int64_t length = w->out[o].length;
    return w->out[o].row ? w->out[o].row[k / length] * length + k % length : k;
}

int ak_want_compare(const struct ak_want *w, const char *mem, const struct ak_place *p, size_t set, struct ak_where *where) {
    for (size_t o = 0; o < w->n; o++) {
        size_t i = w->out[o].arg;
        struct ak_tensor t = p->c->args[i].t;
        t.data = (char *)mem + p->at[i] + set * p->step;
        double *got = ak_reals(&t);
        int64_t n = w->out[o].rows * w->out[o].length, bad = -1, count = 0;
        for (int64_t k = 0; k < n; k++) {
            double want = w->out[o].value[k];
            if (matches(got[place_of(w, o, k)], want, allowed(w, o, k / w->out[o].length, want, t.dtype), t.dtype)) continue;
            if (!count++) bad = k;
        }
        if (bad >= 0) {
            double want = w->out[o].value[bad], g = got[place_of(w, o, bad)];
            snprintf(where->what, sizeof where->what, "%s", isnan(g) && !isnan(want) ? "NaN" : isinf(g) && isfinite(want) ? "infinity" : "wrong value");
            snprintf(where->arg, sizeof where->arg, "%s", p->c->args[i].name);
            index_text(where->index, sizeof where->index, &t, place_of(w, o, bad));
            where->element = true;
            where->got = g;
            where->want = want;
            where->allowed = allowed(w, o, bad / w->out[o].length, want, t.dtype);
            where->wrong = count;
            where->of = n;
            where->opponents = w->opponents;
        }
        free(got);
        if (bad >= 0) return -1;
    }
    return w->also ? ak_want_compare(w->also, mem, p, set, where) : 0;
}
