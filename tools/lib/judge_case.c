/* Where the arguments of a case lie and what they hold. */
#include "judge_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rand.h"
#include "walk.h"

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static bool is_read(enum ak_role role) { return role == AK_ROLE_INPUT || role == AK_ROLE_CONSTANT || role == AK_ROLE_INOUT; }

/* ---- places ---- */

/* Storages are spread over offsets within a page: buffers that all begin at one would compete for
 * the same cache lines, which no allocator makes them do. */
void ak_place_init(struct ak_place *p, const struct ak_spec *s, const struct ak_case *c, size_t nsets, bool odd, uint64_t seed) {
    *p = (struct ak_place){.spec = s, .c = c, .nsets = nsets};
    size_t at = 0;
    for (size_t i = 0; i < s->nargs; i++) {
        const struct ak_spec_arg *a = &c->args[i];
        if (a->role == AK_ROLE_ABSENT) continue;
        size_t size = ak_dtype_size(a->t.dtype);
        at = round_up(at + AK_GUARD, 256) + ak_rand_u64(seed, i) % 8 * 64;
        if (odd) at += size * (1 + ak_rand_u64(seed, i + 64) % 15);
        p->at[i] = at;
        p->bytes[i] = (size_t)ak_extent(&a->t) * size;
        at += p->bytes[i] + AK_GUARD;
    }
    p->step = round_up(at, 256) + 64;
    p->end = round_up(p->step * nsets, 4096);
}

static void copy_name(char *to, const char *from) { snprintf(to, AK_WORKER_NAME, "%s", from); }

void ak_place_call(const struct ak_place *p, struct ak_worker_call *call) {
    const struct ak_spec *s = p->spec;
    *call = (struct ak_worker_call){.nargs = (uint32_t)s->nargs, .nattrs = (uint32_t)s->nattrs, .nsets = (uint32_t)p->nsets, .step = p->step};
    copy_name(call->type, s->type);
    for (size_t i = 0; i < s->nargs; i++)
        call->args[i] = (struct ak_worker_arg){.role = p->c->args[i].role, .t = p->c->args[i].t, .at = p->at[i]};
    for (size_t i = 0; i < s->nattrs; i++) {
        const struct ak_attr *a = &s->attrs[i];
        struct ak_worker_attr *to = &call->attrs[i];
        copy_name(to->name, a->name);
        to->type = a->type;
        to->n = a->n;
        if (a->type == AK_ATTR_REAL) to->f = a->v.f;
        else if (a->type == AK_ATTR_ENUM) copy_name(to->s, a->v.s);
        else if (a->type == AK_ATTR_INTS) memcpy(to->ints, a->v.ints, (size_t)(a->n < 8 ? a->n : 8) * sizeof(int64_t));
        else to->ints[0] = a->v.i;
    }
}

/* ---- patterns ---- */

/* n bytes of elements of value v, at any address. */
static void fill(void *to, size_t n, enum ak_dtype d, double v) {
    char e[8];
    size_t size = ak_dtype_size(d), done = size;
    if (n < size) return;
    ak_store(d, e, 0, v);
    memcpy(to, e, size);
    for (; done < n; done += done < n - done ? done : n - done)
        memcpy((char *)to + done, to, done < n - done ? done : n - done);
}

static double poison(enum ak_dtype d, int kind, uint64_t seed) {
    double u = ak_rand_uniform(seed, (uint64_t)kind);
    if (!ak_dtype_is_float(d)) return kind ? 77 : -7;
    return kind ? -0.0137 * (1 + u) : 9000 * (1 + u);
}

static double guard(enum ak_dtype d, int kind) {
    if (!ak_dtype_is_float(d)) return kind ? 101 : -1;
    return kind ? 3e4 : NAN;
}

/* 1 for the bytes of a storage that the tensor covers; NULL if that is all of them. */
static char *covered(const struct ak_tensor *t, size_t bytes) {
    size_t size = ak_dtype_size(t->dtype);
    int64_t n = ak_numel(t);
    if ((size_t)n * size == bytes) return NULL; /* no element twice in what is written: strides of outputs are not 0 */
    char *map = ak_calloc(bytes + 1, 1);
    for (int64_t k = 0; k < n; k++)
        memset(map + (size_t)ak_index(t, k) * size, 1, size);
    return map;
}

/* ---- contents ---- */

enum family { NORMAL, LARGE, TINY, MIXED, TAIL, SHIFTED, EQUAL, ZEROS, NONFINITE, NFAMILIES };
static const char *const family_names[] = {"normal", "large", "tiny", "mixed", "tail", "shifted", "equal", "zeros", "nonfinite"};

static enum family family_of(const char *name) {
    for (int i = 0; i < NFAMILIES; i++)
        if (strcmp(name, family_names[i]) == 0) return (enum family)i;
    ak_die(AK_EXIT_INPUT, "no input family '%s'", name);
}

/* Half precision holds neither 1e4 times a normal number squared nor its sum. */
static double large_scale(enum ak_dtype d, uint64_t seed) { return d == AK_F16 ? 60 : 1e3 * pow(10, ak_rand_uniform(seed, 3)); }

static void scale_all(const struct ak_tensor *t, double mean, double std) {
    int64_t n = ak_numel(t);
    for (int64_t k = 0; k < n; k++)
        ak_set(t, k, mean + std * ak_get(t, k));
}

static void mix_rows(const struct ak_tensor *t, uint64_t seed) {
    int64_t n = ak_numel(t), row = t->ndim ? t->shape[t->ndim - 1] : 1;
    double decades = t->dtype == AK_F16 ? 1 : 3;
    for (int64_t k = 0; k < n; k++) {
        double u = ak_rand_uniform(seed, (uint64_t)(k / row));
        ak_set(t, k, ak_get(t, k) * pow(10, decades * (2 * u - 1)));
    }
}

/* Quiet at first, loud in the last part of every row. */
static void loud_tail(const struct ak_tensor *t) {
    int64_t n = ak_numel(t), row = t->ndim ? t->shape[t->ndim - 1] : 1;
    for (int64_t k = 0; k < n; k++) {
        double x = ak_get(t, k);
        ak_set(t, k, k % row < row - row / 4 ? 0.1 * x : 3 + 50 * x);
    }
}

static void place_nonfinite(const struct ak_tensor *t, uint64_t seed) {
    static const double what[] = {INFINITY, NAN, -INFINITY};
    int64_t n = ak_numel(t);
    for (uint64_t i = 0; i < 3 && n; i++)
        ak_set(t, (int64_t)(ak_rand_u64(seed, i) % (uint64_t)n), what[i]);
}

static void shape_family(const struct ak_tensor *t, enum family f, bool first, uint64_t seed) {
    switch (f) {
    case LARGE: scale_all(t, 0, large_scale(t->dtype, seed)); break;
    case TINY: scale_all(t, 0, 1e-6); break;
    case MIXED: mix_rows(t, seed); break;
    case TAIL: loud_tail(t); break;
    case SHIFTED: scale_all(t, 5, 10); break;
    case EQUAL: scale_all(t, ak_rand_normal(seed, 4), 0); break;
    case ZEROS: scale_all(t, 0, 0); break;
    case NONFINITE:
        if (first) place_nonfinite(t, seed);
        break;
    default: break;
    }
}

/* A product of many normal numbers is nothing or all: factors near 1, of either sign. */
static void factors(const struct ak_tensor *t, int64_t length) {
    int64_t n = ak_numel(t);
    for (int64_t k = 0; k < n; k++) {
        double x = ak_get(t, k);
        if (isfinite(x)) ak_set(t, k, copysign(1 + fmin(fabs(x), 4) / sqrt((double)length + 1), x));
    }
}

static bool is_product(const struct ak_spec *s) {
    for (size_t i = 0; i < s->nattrs; i++)
        if (s->attrs[i].type == AK_ATTR_ENUM && strcmp(s->attrs[i].v.s, "prod") == 0) return true;
    return false;
}

/* About 3 of 4 let through; the first of a row always, so that no row is masked whole. */
static void draw_mask(const struct ak_tensor *t, uint64_t seed) {
    int64_t n = ak_numel(t), row = t->ndim ? t->shape[t->ndim - 1] : 1;
    for (int64_t k = 0; k < n; k++) {
        bool on = k % row == 0 || ak_rand_u64(seed, (uint64_t)k) % 4 != 0;
        ak_set(t, k, t->dtype == AK_BOOL ? on : on ? 0 : -INFINITY);
    }
}

static void draw_cos(const struct ak_tensor *t, uint64_t seed) {
    int64_t n = ak_numel(t);
    for (int64_t k = 0; k < n; k++)
        ak_set(t, k, 2 * ak_rand_uniform(seed, (uint64_t)k) - 1);
}

/* Weights keep the size of what goes through them, as trained ones do; biases and gains are normal. */
static double weight_std(const struct ak_spec_arg *a) {
    return a->role == AK_ROLE_CONSTANT && a->t.ndim >= 2 ? 1 / sqrt((double)a->t.shape[a->t.ndim - 2] + 1) : 1;
}

static void draw_arg(const struct ak_place *p, size_t i, const struct ak_tensor *t, bool first, uint64_t seed) {
    const struct ak_spec_arg *a = &p->c->args[i];
    switch (a->draw) {
    case AK_DRAW_INT: ak_rand_fill_int(t, seed, a->lo, a->hi > a->lo ? a->hi : a->lo + 1); return;
    case AK_DRAW_COS: draw_cos(t, seed); return;
    case AK_DRAW_MASK: draw_mask(t, seed); return;
    case AK_DRAW_NORMAL: break;
    }
    if (!ak_dtype_is_float(t->dtype)) {
        ak_rand_fill_int(t, seed, 0, 2);
        return;
    }
    ak_rand_fill_normal(t, seed, 0, weight_std(a));
    if (a->role != AK_ROLE_CONSTANT) shape_family(t, family_of(p->c->family), first, ak_rand_seed(seed, "family"));
    if (is_product(p->spec)) factors(t, t->ndim > 1 ? t->shape[1] : 1);
}

void ak_image_draw(struct ak_image *im, const struct ak_place *p, uint64_t seed) {
    *im = (struct ak_image){.n = p->spec->nargs};
    bool first = true;
    for (size_t i = 0; i < im->n; i++) {
        const struct ak_spec_arg *a = &p->c->args[i];
        if (!is_read(a->role)) continue;
        im->data[i] = ak_malloc(p->bytes[i] + 8);
        fill(im->data[i], p->bytes[i], a->t.dtype, guard(a->t.dtype, 0)); /* gaps */
        struct ak_tensor t = a->t;
        t.data = im->data[i];
        draw_arg(p, i, &t, first && a->role == AK_ROLE_INPUT, ak_rand_seed(seed, a->name));
        first &= a->role != AK_ROLE_INPUT;
    }
}

void ak_image_touch(struct ak_image *im, const struct ak_place *p, uint64_t seed) {
    for (size_t i = 0; i < im->n; i++) {
        const struct ak_spec_arg *a = &p->c->args[i];
        int64_t n = ak_numel(&a->t);
        if (a->role != AK_ROLE_INPUT || a->draw != AK_DRAW_NORMAL || !ak_dtype_is_float(a->t.dtype) || n < 2) continue;
        struct ak_tensor t = a->t;
        t.data = im->data[i];
        int64_t from = n / 2, count = 1 + n / 16;
        for (int64_t k = 0; k < count; k++) {
            int64_t at = from + (int64_t)(ak_rand_u64(seed, (uint64_t)k) % (uint64_t)(n - from));
            ak_set(&t, at, -ak_get(&t, at) + 0.5);
        }
        return;
    }
}

void ak_image_nudge(struct ak_image *im, const struct ak_place *p, char *mem, size_t set, uint64_t seed) {
    for (size_t i = 0; i < im->n; i++) {
        const struct ak_spec_arg *a = &p->c->args[i];
        int64_t n = ak_numel(&a->t);
        if (a->role != AK_ROLE_INPUT || a->draw != AK_DRAW_NORMAL || !ak_dtype_is_float(a->t.dtype) || !n) continue;
        struct ak_tensor kept = a->t, lies = a->t;
        int64_t k = (int64_t)(ak_rand_u64(seed, i) % (uint64_t)n);
        kept.data = im->data[i];
        lies.data = mem + p->at[i] + set * p->step;
        ak_set(&kept, k, 0.5 - ak_get(&kept, k));
        ak_set(&lies, k, ak_get(&kept, k));
    }
}

void ak_image_release(struct ak_image *im) {
    for (size_t i = 0; i < im->n; i++)
        free(im->data[i]);
    *im = (struct ak_image){0};
}

/* ---- sets ---- */

void ak_set_write(char *mem, const struct ak_place *p, size_t set, const struct ak_image *im, int kind, uint64_t seed) {
    for (size_t i = 0; i < p->spec->nargs; i++) {
        const struct ak_spec_arg *a = &p->c->args[i];
        if (a->role == AK_ROLE_ABSENT) continue;
        char *data = mem + p->at[i] + set * p->step;
        enum ak_dtype d = a->t.dtype;
        fill(data - AK_GUARD, AK_GUARD, d, guard(d, kind));
        fill(data + p->bytes[i], AK_GUARD, d, guard(d, kind));
        if (im->data[i]) memcpy(data, im->data[i], p->bytes[i]);
        else fill(data, p->bytes[i], d, poison(d, kind, seed));
    }
}

static int64_t first_difference(const char *a, const char *b, size_t n) {
    if (memcmp(a, b, n) == 0) return -1;
    size_t i = 0;
    while (a[i] == b[i])
        i++;
    return (int64_t)i;
}

static int report(struct ak_where *w, const char *what, const struct ak_spec_arg *a, const char *fmt, int64_t at) {
    snprintf(w->what, sizeof w->what, "%s", what);
    snprintf(w->arg, sizeof w->arg, "%s", a->name);
    snprintf(w->index, sizeof w->index, fmt, (long long)at);
    return -1;
}

static int check_guards(const char *data, size_t bytes, const struct ak_spec_arg *a, int kind, struct ak_where *w) {
    char want[AK_GUARD];
    int64_t size = (int64_t)ak_dtype_size(a->t.dtype);
    fill(want, AK_GUARD, a->t.dtype, guard(a->t.dtype, kind));
    int64_t before = first_difference(data - AK_GUARD, want, AK_GUARD), after = first_difference(data + bytes, want, AK_GUARD);
    if (after >= 0) return report(w, "wrote past the end", a, "%lld elements past the end", after / size + 1);
    if (before >= 0) return report(w, "wrote before the start", a, "%lld elements before the start", (AK_GUARD - before + size - 1) / size);
    return 0;
}

static int check_gaps(const char *data, size_t bytes, const struct ak_spec_arg *a, int kind, uint64_t seed, struct ak_where *w) {
    char *map = covered(&a->t, bytes);
    if (!map) return 0;
    size_t size = ak_dtype_size(a->t.dtype);
    char e[8];
    ak_store(a->t.dtype, e, 0, poison(a->t.dtype, kind, seed));
    int rc = 0;
    for (size_t k = 0; k < bytes && !rc; k += size)
        if (!map[k] && memcmp(data + k, e, size) != 0) rc = report(w, "wrote between rows", a, "element %lld of the storage", (int64_t)(k / size));
    free(map);
    return rc;
}

int ak_set_check(const char *mem, const struct ak_place *p, size_t set, const struct ak_image *im, int kind, uint64_t seed, struct ak_where *w) {
    for (size_t i = 0; i < p->spec->nargs; i++) {
        const struct ak_spec_arg *a = &p->c->args[i];
        if (a->role == AK_ROLE_ABSENT) continue;
        const char *data = mem + p->at[i] + set * p->step;
        if (check_guards(data, p->bytes[i], a, kind, w)) return -1;
        if (!im->data[i] && check_gaps(data, p->bytes[i], a, kind, seed, w)) return -1;
        int64_t at = im->data[i] ? first_difference(data, im->data[i], p->bytes[i]) : -1;
        if (at >= 0)
            return report(w, a->role == AK_ROLE_CONSTANT ? "constant modified" : "input modified", a, "element %lld of the storage",
                          at / (int64_t)ak_dtype_size(a->t.dtype));
    }
    return 0;
}
