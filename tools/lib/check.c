/* Right or wrong, and where: five stages over the cases of a spec. Every case runs twice over
 * different poison and different guards, the own shape on changed inputs too; a case that cannot
 * be run, or that nobody supports, is never one that passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge_case.h"
#include "mem.h"
#include "rand.h"

struct run {
    struct ak_judge *j;
    const struct ak_case *c;
    const char *stage;
    struct ak_place place;
    struct ak_image image;
    struct ak_want want;
    uint64_t seed;
    size_t scratch_at, scratch, packed_at, packed, end;
};

bool ak_stage_known(const char *stage) {
    static const char *const names[] = {"smoke", "shapes", "stability", "determinism", "edge"};
    for (size_t i = 0; i < AK_NSTAGES; i++)
        if (strcmp(stage, names[i]) == 0) return true;
    return false;
}

static bool is_own(const struct run *r) { return r->c == r->j->spec->cases; }

/* ---- commands ---- */

static int command(struct run *r, struct ak_command *c, struct ak_reply *reply, const char *what) {
    char doing[320];
    snprintf(doing, sizeof doing, "%s: case '%s', %s: in %s it", r->stage, r->c->name, r->c->family, what);
    return ak_judge_do(r->j, c, reply, ak_judge_limit(r->j, is_own(r) ? 1 : 0), doing);
}

static int must_be_ok(struct run *r, struct ak_command *c, const char *what) {
    struct ak_reply reply;
    if (command(r, c, &reply, what)) return -1;
    if (reply.status == AK_OK) return 0;
    return ak_judge_say(r->j, AK_VERDICT_CRASH, "%s: case '%s', %s: %s returned %d", r->stage, r->c->name, r->c->family, what, reply.status);
}

static int prepare(struct run *r) { return must_be_ok(r, &(struct ak_command){.kind = AK_DO_PREPARE, .nsets = 1}, "ak_prepare"); }
static int launch(struct run *r) { return must_be_ok(r, &(struct ak_command){.kind = AK_DO_LAUNCH}, "ak_launch"); }

/* ---- what the kernel wants for itself ---- */

static void write_extra(struct run *r, int kind) {
    char *mem = r->j->w.mem;
    memset(mem + r->scratch_at - AK_GUARD, kind ? 0x5c : 0xff, r->end - (r->scratch_at - AK_GUARD));
}

static bool intact(const struct run *r, size_t at, int kind) {
    const char *p = r->j->w.mem + at;
    for (size_t i = 0; i < AK_GUARD; i++)
        if (p[i] != (char)(kind ? 0x5c : 0xff)) return false;
    return true;
}

static const char *check_extra(const struct run *r, int kind) {
    if (!intact(r, r->scratch_at - AK_GUARD, kind) || !intact(r, r->scratch_at + r->scratch, kind)) return "scratch";
    if (!intact(r, r->packed_at - AK_GUARD, kind) || !intact(r, r->packed_at + r->packed, kind)) return "packed";
    return NULL;
}

static size_t align(size_t n) { return (n + 255) / 256 * 256; }

/* 0: ready to be called. 1: it does not do this shape. -1: a verdict. */
static int set_up(struct run *r) {
    struct ak_judge *j = r->j;
    struct ak_command c = {.kind = AK_DO_BIND};
    struct ak_reply reply;
    struct ak_err err = {0};
    ak_place_call(&r->place, &c.call);
    if (ak_worker_reserve(&j->w, r->place.end, &err)) return ak_judge_say(j, AK_VERDICT_REFUSED, "case '%s' cannot be run: %s", r->c->name, err.msg);
    if (must_be_ok(r, &c, "set-up")) return -1;
    c.kind = AK_DO_QUERY;
    if (command(r, &c, &reply, "ak_query")) return -1;
    if (reply.status == AK_UNSUPPORTED) return 1;
    if (reply.status != AK_OK)
        return ak_judge_say(j, AK_VERDICT_CRASH, "%s: case '%s': ak_query returned %d", r->stage, r->c->name, reply.status);
    r->scratch = reply.needs.scratch_bytes;
    r->packed = reply.needs.packed_bytes;
    r->scratch_at = align(r->place.end + AK_GUARD);
    if (r->scratch > AK_WORKER_MOST || r->packed > AK_WORKER_MOST)
        return ak_judge_say(j, AK_VERDICT_REFUSED, "case '%s': it wants %zu MB of scratch and %zu MB for packing", r->c->name, r->scratch >> 20, r->packed >> 20);
    r->packed_at = align(r->scratch_at + r->scratch + 2 * AK_GUARD);
    r->end = r->packed_at + r->packed + AK_GUARD;
    if (ak_worker_reserve(&j->w, r->end, &err)) return ak_judge_say(j, AK_VERDICT_REFUSED, "case '%s' cannot be run: %s", r->c->name, err.msg);
    c = (struct ak_command){.kind = AK_DO_GIVE, .scratch_at = r->scratch_at, .packed_at = r->packed_at};
    return must_be_ok(r, &c, "set-up");
}

/* ---- one case ---- */

static int found(struct run *r, struct ak_where *w) {
    struct ak_judge *j = r->j;
    snprintf(w->stage, sizeof w->stage, "%s", r->stage);
    snprintf(w->case_name, sizeof w->case_name, "%s", r->c->name);
    snprintf(w->family, sizeof w->family, "%s", r->c->family);
    char text[480];
    ak_where_text(text, sizeof text, w);
    if (j->verdict == AK_VERDICT_PASS) j->where = *w;
    return ak_judge_say(j, AK_VERDICT_WRONG, "%s", text);
}

static int untouched(struct run *r, int kind) {
    struct ak_where w = {0};
    if (ak_set_check(r->j->w.mem, &r->place, 0, &r->image, kind, r->seed, &w)) return found(r, &w);
    const char *extra = check_extra(r, kind);
    if (!extra) return 0;
    snprintf(w.what, sizeof w.what, "wrote outside");
    snprintf(w.arg, sizeof w.arg, "%s", extra);
    return found(r, &w);
}

static void write_all(struct run *r, int kind) {
    ak_set_write(r->j->w.mem, &r->place, 0, &r->image, kind, r->seed);
    write_extra(r, kind);
}

static int run_once(struct run *r, int kind) {
    write_all(r, kind);
    if (prepare(r) || launch(r) || untouched(r, kind)) return -1;
    struct ak_where w = {0};
    return ak_want_compare(&r->want, r->j->w.mem, &r->place, 0, &w) ? found(r, &w) : 0;
}

static int make_want(struct run *r) {
    struct ak_err err = {0};
    ak_want_release(&r->want);
    if (ak_judge_want(r->j, &r->want, &r->place, &r->image, r->seed, &err) == 0) return 0;
    return ak_judge_say(r->j, AK_VERDICT_REFUSED, "no truth for case '%s': %s", r->c->name, err.msg);
}

static int right(struct run *r) {
    if (make_want(r) || run_once(r, 0)) return -1;
    if (is_own(r) && !r->j->heavy) {
        ak_image_touch(&r->image, &r->place, r->seed);
        if (make_want(r)) return -1;
    }
    return run_once(r, 1);
}

/* The same bits from the same arguments. */
static int same_bits(struct run *r) {
    const int launches = r->j->heavy && is_own(r) ? 2 : 5;
    char *mem = r->j->w.mem, *first = NULL;
    int rc = 0;
    for (int i = 0; i < launches && !rc; i++) {
        if (first) ak_set_write(mem, &r->place, 0, &r->image, 0, r->seed);
        else write_all(r, 0);
        if ((rc = (!first && prepare(r)) || launch(r) || untouched(r, 0))) break;
        mem = r->j->w.mem;
        if (!first) {
            first = ak_memdup(mem, r->place.end);
            continue;
        }
        for (size_t k = 0; k < r->j->spec->nargs && !rc; k++) {
            const struct ak_spec_arg *a = &r->c->args[k];
            if (a->role != AK_ROLE_OUTPUT || memcmp(mem + r->place.at[k], first + r->place.at[k], r->place.bytes[k]) == 0) continue;
            struct ak_where w = {.what = "other bits for the same inputs"};
            snprintf(w.arg, sizeof w.arg, "%s", a->name);
            snprintf(w.index, sizeof w.index, "launch %d of %d", i + 1, launches);
            rc = found(r, &w);
        }
    }
    free(first);
    return rc ? -1 : 0;
}

static int check_case(struct ak_judge *j, struct ak_stage *stage, size_t index) {
    struct run r = {.j = j, .c = &j->spec->cases[index], .stage = stage->name};
    char name[32];
    snprintf(name, sizeof name, "%s %zu", stage->name, index);
    r.seed = ak_rand_seed(j->opt.seed, name);
    stage->cases++;
    /* the same case lies at the same addresses in every stage, with other contents */
    ak_place_init(&r.place, j->spec, r.c, 1, strcmp(stage->name, "edge") == 0, ak_rand_seed(j->opt.seed, r.c->name));
    int rc = set_up(&r);
    if (rc == 1 && is_own(&r)) rc = ak_judge_say(j, AK_VERDICT_UNSUPPORTED, "ak_query says AK_UNSUPPORTED for the spec's own shape");
    if (rc == 0) {
        ak_image_draw(&r.image, &r.place, r.seed);
        rc = strcmp(stage->name, "determinism") == 0 ? same_bits(&r) : right(&r);
    }
    stage->unsupported += rc == 1;
    stage->passed += rc == 0;
    ak_image_release(&r.image);
    ak_want_release(&r.want);
    return rc < 0 ? -1 : 0;
}

static int check_stage(struct ak_judge *j, struct ak_stage *stage) {
    bool own = strcmp(stage->name, "shapes") == 0 || strcmp(stage->name, "determinism") == 0 ||
               (strcmp(stage->name, "smoke") == 0 && !j->heavy);
    if (own && check_case(j, stage, 0)) return -1;
    for (size_t i = 1; i < j->spec->ncases; i++)
        if (strcmp(j->spec->cases[i].stage, stage->name) == 0 && check_case(j, stage, i)) return -1;
    return 0;
}

int ak_judge_check(struct ak_judge *j, const char *stage) {
    for (size_t i = 0; i < AK_NSTAGES && j->verdict == AK_VERDICT_PASS; i++) {
        if (stage && strcmp(stage, j->stages[i].name) != 0) continue;
        if (check_stage(j, &j->stages[i]) == 0) ak_judge_habits(j);
    }
    return j->verdict == AK_VERDICT_PASS ? 0 : -1;
}
