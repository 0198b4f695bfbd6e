/* Where truth of the whole own shape takes long: rows drawn anew each time are held against truth, and
 * every element against the opponent, which this process runs itself. The spec has a case "sample" for
 * it, its own arguments at a small number of rows (rules/kernels.lua: `rows`). */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "judge_case.h"
#include "mem.h"
#include "rand.h"
#include "walk.h"

static const struct ak_case *sample_case(const struct ak_spec *s) {
    const struct ak_case *last = &s->cases[s->ncases - 1];
    return strcmp(last->stage, "sample") == 0 ? last : NULL;
}

/* ---- rows ---- */

struct rows { /* of `of` rows these, in order */
    int64_t *at, n, of;
};

/* The dim that the cases differ in, in the first argument that has it. */
static struct rows draw_rows(const struct ak_spec *s, const struct ak_case *c, uint64_t seed) {
    struct rows r = {0};
    for (size_t i = 0; i < s->nargs && !r.at; i++)
        for (int d = 0; c->args[i].role != AK_ROLE_ABSENT && d < c->args[i].t.ndim; d++) {
            r.n = c->args[i].t.shape[d];
            r.of = s->cases[0].args[i].t.shape[d];
            if (r.n < r.of) r.at = ak_calloc((size_t)r.n + 1, sizeof *r.at);
            if (r.at) break;
        }
    if (!r.at) return r;
    /* selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S) */
    for (int64_t row = 0, got = 0; got < r.n; row++)
        if (ak_rand_u64(seed, (uint64_t)row) % (uint64_t)(r.of - row) < (uint64_t)(r.n - got)) r.at[got++] = row;
    return r;
}

/* Where element k of a sample's tensor is in the own one. */
static int64_t origin(const struct ak_tensor *small, const struct ak_tensor *own, const struct rows *r, int64_t k) {
    int64_t flat = 0, step = 1;
    for (int d = small->ndim - 1; d >= 0; d--) {
        int64_t i = k % small->shape[d];
        k /= small->shape[d];
        flat += (small->shape[d] != own->shape[d] ? r->at[i] : i) * step;
        step *= own->shape[d];
    }
    return flat;
}

static void gather(struct ak_image *to, const struct ak_place *small, const struct ak_place *own, const struct ak_image *from, const struct rows *r) {
    *to = (struct ak_image){.n = from->n};
    for (size_t i = 0; i < from->n; i++) {
        if (!from->data[i]) continue;
        struct ak_tensor t = small->c->args[i].t, o = own->c->args[i].t;
        to->data[i] = t.data = ak_calloc(small->bytes[i] + 8, 1);
        o.data = from->data[i];
        int64_t n = ak_numel(&t);
        for (int64_t k = 0; k < n; k++)
            ak_set(&t, k, ak_get(&o, origin(&t, &o, r, k)));
    }
}

static int want_rows(struct ak_want *w, struct ak_judge *j, const struct ak_case *c, const struct ak_place *p, const struct ak_image *im, uint64_t seed,
                     struct ak_err *err) {
    struct ak_truth *t = ak_judge_truth(j, c, err);
    struct rows r = draw_rows(j->spec, c, seed);
    struct ak_place small;
    struct ak_image image;
    ak_place_init(&small, j->spec, c, 1, false, seed);
    gather(&image, &small, p, im, &r);
    int rc = t ? ak_want_make(w, t, &small, &image, false, seed, err) : -1;
    for (size_t o = 0; o < w->n && !rc; o++) {
        w->out[o].row = ak_calloc((size_t)w->out[o].rows + 1, sizeof *w->out[o].row);
        for (int64_t k = 0; k < w->out[o].rows; k++)
            w->out[o].row[k] = origin(&c->args[w->out[o].arg].t, &p->c->args[w->out[o].arg].t, &r, k * w->out[o].length) / w->out[o].length;
    }
    ak_image_release(&image);
    free(r.at);
    return rc;
}

/* ---- the opponent ---- */

struct own_call {
    struct ak_call call;
    struct ak_arg args[AK_WORKER_ARGS];
    DLTensor dl[AK_WORKER_ARGS];
    struct ak_tensor t[AK_WORKER_ARGS];
    void *outputs[AK_WORKER_ARGS], *scratch, *packed;
};

static void bind_call(struct own_call *c, const struct ak_place *p, const struct ak_image *im) {
    const struct ak_spec *s = p->spec;
    *c = (struct own_call){.call = {.abi = AK_KERNEL_ABI, .type = s->type, .nargs = (uint32_t)s->nargs, .nattrs = (uint32_t)s->nattrs, .attrs = s->attrs}};
    c->call.args = c->args;
    for (size_t i = 0; i < s->nargs; i++) {
        c->args[i].role = p->c->args[i].role;
        if (c->args[i].role == AK_ROLE_ABSENT) continue;
        c->t[i] = p->c->args[i].t;
        c->t[i].data = im->data[i] ? im->data[i] : (c->outputs[i] = ak_calloc(p->bytes[i] + 8, 1));
        c->dl[i] = ak_dltensor(&c->t[i]);
        c->args[i].tensor = &c->dl[i];
    }
}

static void *aligned(size_t bytes) {
    void *p = aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (!p) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", bytes);
    return p;
}

/* 0, 1 where it does not do this shape, -1. */
static int run(const struct ak_kernel *k, struct own_call *c, struct ak_err *err) {
    struct ak_needs needs = {0};
    int rc = k->query(&c->call, &needs);
    if (rc == AK_UNSUPPORTED) return 1;
    c->call.scratch = c->scratch = aligned(needs.scratch_bytes);
    c->call.packed = c->packed = aligned(needs.packed_bytes);
    if (rc == AK_OK && k->prepare) rc = k->prepare(&c->call);
    if (rc == AK_OK) rc = k->launch(&c->call);
    omp_pause_resource_all(omp_pause_soft); /* its threads go before the worker is timed */
    return rc == AK_OK ? 0 : ak_fail(err, AK_EXIT_INPUT, "the opponent returned %d", rc);
}

static int want_opponent(struct ak_want *w, struct ak_judge *j, const struct ak_place *p, const struct ak_image *im, double step, struct ak_err *err) {
    struct own_call c;
    if (!j->own.handle && ak_kernel_open(&j->own, j->opt.opponent, err)) return -1;
    bind_call(&c, p, im);
    int rc = run(&j->own, &c, err);
    if (!rc) ak_want_near(w, p, c.t, step);
    for (size_t i = 0; i < j->spec->nargs; i++)
        free(c.outputs[i]);
    free(c.scratch);
    free(c.packed);
    return rc;
}

int ak_want_sample(struct ak_want *w, struct ak_judge *j, const struct ak_place *p, const struct ak_image *im, uint64_t seed, struct ak_err *err) {
    const struct ak_case *c = sample_case(j->spec);
    if (!c || !j->opt.opponent) return 1;
    if (want_rows(w, j, c, p, im, seed, err)) return -1;
    w->also = ak_calloc(1, sizeof *w->also);
    int rc = want_opponent(w->also, j, p, im, w->floor, err);
    if (rc) ak_want_release(w);
    return rc;
}
