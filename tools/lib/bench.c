/* How fast: candidate, incumbent and opponent in turn, in an order shuffled every round, over the
 * same buffers, going through sets of arguments that together are more than twice the L2 caches.
 *
 * How much is timed is settled by the incumbent and the opponent before the candidate is loaded.
 * What a kernel packs lies at another place for each slot; the places change hands between phases.
 * At moments that the candidate cannot foresee a set gets new inputs and a poisoned output, and the
 * candidate's answer is compared with truth; those times are thrown away. The worker's times must
 * be borne out by this process's clock. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "judge_bench.h"
#include "judge_clock.h"
#include "mem.h"
#include "rand.h"

enum { MIN_ROUNDS = 8 /* the fewest with a 99% interval of the median */, FEW_ROUNDS = 25, MAX_ROUNDS = 301, MAX_SETS = 128, LOOKS = 3 };

/* ---- sets ---- */

static double own_bytes(const struct ak_spec *s) {
    double sum = 0;
    for (size_t i = 0; i < s->nargs; i++)
        if (s->cases[0].args[i].role != AK_ROLE_ABSENT) sum += (double)ak_tensor_bytes(&s->cases[0].args[i].t);
    return sum;
}

static size_t sets_for(const struct ak_spec *s) {
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), cores = sysconf(_SC_NPROCESSORS_ONLN);
    double want = 2.2 * (l2 > 0 ? (double)l2 : 1 << 20) * (double)cores, one = own_bytes(s) + 1;
    return one > 4 * want ? 1 : (size_t)fmin(MAX_SETS, fmax(2, ceil(want / one)));
}

static void write_sets(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    for (size_t i = 0; i < b->place.nsets; i++)
        ak_set_write(j->w.mem, &b->place, i, &b->images[i], 0, b->seed);
}

/* ---- commands ---- */

int ak_bench_ask(struct ak_judge *j, struct ak_command *c, struct ak_reply *r, double calls, const char *doing) {
    if (ak_judge_do(j, c, r, ak_judge_limit(j, calls), doing)) return -1;
    return r->status == AK_OK ? 0 : ak_judge_say(j, AK_VERDICT_CRASH, "%s one of the kernels returned %d", doing, r->status);
}

static int bind_sets(struct ak_judge *j) {
    struct ak_command c = {.kind = AK_DO_BIND};
    struct ak_reply r;
    ak_place_call(&j->bench->place, &c.call);
    return ak_bench_ask(j, &c, &r, 1, "timing: in set-up it");
}

static int query(struct ak_judge *j, enum ak_slot slot) {
    struct ak_bench *b = j->bench;
    struct ak_command c = {.kind = AK_DO_QUERY, .slot = slot};
    struct ak_reply r;
    if (ak_judge_do(j, &c, &r, ak_judge_limit(j, 1), "timing: in ak_query it")) return -1;
    b->has[slot] = r.status == AK_OK;
    b->needs[slot] = r.needs;
    return 0;
}

static size_t align(size_t n) { return (n + 255) / 256 * 256; }

/* Scratch is shared by all; then a place for what is packed, for each slot as large as the largest. */
static int lay_out(struct ak_judge *j, struct ak_err *err) {
    struct ak_bench *b = j->bench;
    size_t scratch = 0, packed = 0;
    for (int s = 0; s < AK_WORKER_SLOTS; s++) {
        if (!b->has[s]) continue;
        scratch = b->needs[s].scratch_bytes > scratch ? b->needs[s].scratch_bytes : scratch;
        packed = b->needs[s].packed_bytes > packed ? b->needs[s].packed_bytes : packed;
    }
    if (scratch > AK_WORKER_MOST || packed > AK_WORKER_MOST) return ak_fail(err, AK_EXIT_IO, "too much scratch or packed memory is asked for");
    b->scratch_at = align(b->place.end);
    size_t at = b->scratch_at + align(scratch) + 4096, each = packed ? (align(packed) + 320) * b->place.nsets : 0;
    for (int s = 0; s < AK_WORKER_SLOTS; s++, at += each)
        b->packed_at[s] = at;
    return ak_worker_reserve(&j->w, at + 4096, err);
}

/* In phase p slot s packs into place (s + p) mod 3. */
static int give(struct ak_judge *j, int phase) {
    struct ak_bench *b = j->bench;
    struct ak_reply r;
    for (uint32_t s = 0; s < AK_WORKER_SLOTS; s++) {
        if (!b->has[s]) continue;
        struct ak_command c = {.kind = AK_DO_GIVE,
                               .slot = s,
                               .scratch_at = b->scratch_at,
                               .packed_at = b->packed_at[(s + (uint32_t)phase) % AK_WORKER_SLOTS],
                               .packed_step = align(b->needs[s].packed_bytes) + (b->needs[s].packed_bytes ? 320 - 64 : 0)};
        if (ak_bench_ask(j, &c, &r, 1, "timing: in set-up it")) return -1;
        c.kind = AK_DO_PREPARE;
        c.nsets = (uint32_t)b->place.nsets;
        if (ak_bench_ask(j, &c, &r, (double)c.nsets, "timing: in ak_prepare it")) return -1;
        if (s == AK_CANDIDATE) b->prepare_us = r.us[0] / (double)c.nsets;
    }
    return 0;
}

static void advance(struct ak_bench *b, size_t calls) { b->next = (uint32_t)((b->next + calls) % b->place.nsets); }

struct ak_worker_step ak_bench_step(struct ak_bench *b, enum ak_slot slot, size_t calls) {
    struct ak_worker_step s = {slot, b->next, (uint32_t)calls, slot == AK_OPPONENT ? b->threads : 0};
    advance(b, calls);
    return s;
}

/* One step of `calls` calls of a slot; its time into *us. */
static int run_step(struct ak_judge *j, enum ak_slot slot, size_t calls, double *us) {
    struct ak_command c = {.kind = AK_DO_TIME, .nsteps = 1};
    struct ak_reply r;
    c.steps[0] = ak_bench_step(j->bench, slot, calls);
    if (ak_bench_ask(j, &c, &r, (double)calls, "while it was timed it")) return -1;
    *us = r.us[0];
    return 0;
}

/* ---- the plan ---- */

/* Microseconds of a call: the least of a few samples, each at least sample_us long. */
int ak_bench_estimate(struct ak_judge *j, enum ak_slot slot, double *best) {
    double us;
    size_t calls = 1;
    if (run_step(j, slot, 1, &us) || run_step(j, slot, 1, &us)) return -1;
    if (us < j->opt.sample_us) calls = (size_t)(j->opt.sample_us / fmax(us, 0.05)) + 1;
    *best = us;
    for (int i = 0; i < 3 && us < 5e4; i++) {
        if (run_step(j, slot, calls, &us)) return -1;
        *best = fmin(*best, us / (double)calls);
    }
    return 0;
}

/* One thread or all: a library that takes all there are is slow where waking them costs more than they bring. */
static int estimate_opponent(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    double one, all;
    b->threads = 1;
    if (ak_bench_estimate(j, AK_OPPONENT, &one)) return -1;
    b->threads = 0;
    if (ak_bench_estimate(j, AK_OPPONENT, &all)) return -1;
    b->threads = one < all;
    b->us[AK_OPPONENT] = fmin(one, all);
    return 0;
}

/* Without incumbent and opponent: what a plain loop would take. */
static double guess_us(const struct ak_spec *s) { return 1 + fmax(s->bytes / 5e3, s->flops / 5e3); }

static void settle(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    double quick = INFINITY, slow = 0;
    for (int s = 0; s < AK_WORKER_SLOTS; s++) {
        if (!b->has[s]) continue;
        quick = fmin(quick, b->us[s]);
        slow = fmax(slow, b->us[s]);
    }
    if (!isfinite(quick)) quick = slow = guess_us(j->spec);
    b->calls = (size_t)ceil(fmax(1, j->opt.sample_us / quick));
    double round_us = (2 * slow + quick) * (double)b->calls + 3 * AK_WORKER_PAUSE_US;
    /* with few rounds one disturbed sample is an end of the interval: some more where that takes no half a second */
    double few = fmax(MIN_ROUNDS, fmin(FEW_ROUNDS, 4e5 / round_us));
    b->rounds = (size_t)fmin(MAX_ROUNDS, fmax(few, j->opt.budget_ms * 1e3 / round_us));
    j->own_us = slow;
    /* three runs of truth beyond that take over a second */
    j->heavy = j->spec->flops > 4e8 || own_bytes(j->spec) > 64e6;
}

int ak_bench_plan(struct ak_judge *j, struct ak_err *err) {
    struct ak_bench *b = j->bench = ak_calloc(1, sizeof *b);
    const struct ak_spec *s = j->spec;
    b->seed = ak_rand_seed(j->opt.seed, "timing");
    j->own_us = guess_us(s);
    ak_place_init(&b->place, s, &s->cases[0], sets_for(s), false, b->seed);
    b->images = ak_calloc(b->place.nsets, sizeof *b->images);
    for (size_t i = 0; i < b->place.nsets; i++)
        ak_image_draw(&b->images[i], &b->place, b->seed + 1 + i);
    if (!j->opt.incumbent && !j->opt.opponent) {
        settle(j);
        return 0;
    }
    if (ak_worker_reserve(&j->w, b->place.end, err)) return -1;
    if (bind_sets(j) || (j->opt.incumbent && query(j, AK_INCUMBENT)) || (j->opt.opponent && query(j, AK_OPPONENT))) goto ours;
    if (lay_out(j, err)) return -1;
    write_sets(j);
    if (give(j, 0)) goto ours;
    if (b->has[AK_INCUMBENT] && ak_bench_estimate(j, AK_INCUMBENT, &b->us[AK_INCUMBENT])) goto ours;
    if (b->has[AK_OPPONENT] && estimate_opponent(j)) goto ours;
    settle(j);
    return 0;
ours: /* the candidate is not there yet: what failed is ours */
    return j->killed ? -1 : ak_fail(err, AK_EXIT_INPUT, "incumbent or opponent: %s", j->why);
}

void ak_bench_free(struct ak_bench *b) {
    if (!b) return;
    for (size_t i = 0; b->images && i < b->place.nsets; i++)
        ak_image_release(&b->images[i]);
    for (int s = 0; s < AK_WORKER_SLOTS; s++)
        free(b->samples[s]);
    ak_want_release(&b->want);
    free(b->images);
    free(b);
}

/* ---- rounds ---- */

/* The slots in a random order; with the candidate last if it must be. */
static size_t shuffle(struct ak_bench *b, bool last, uint32_t *order) {
    size_t n = 0;
    for (uint32_t s = 0; s < AK_WORKER_SLOTS; s++)
        if (b->has[s]) order[n++] = s;
    do
        for (size_t i = n; i > 1; i--) {
            size_t k = ak_rand_u64(b->seed, b->shuffles++) % i;
            uint32_t t = order[i - 1];
            order[i - 1] = order[k];
            order[k] = t;
        }
    while (last && order[n - 1] != AK_CANDIDATE);
    return n;
}

static void add_steps(struct ak_bench *b, struct ak_command *c, bool last) {
    uint32_t order[AK_WORKER_SLOTS];
    size_t n = shuffle(b, last, order);
    for (size_t i = 0; i < n; i++)
        c->steps[c->nsteps++] = ak_bench_step(b, order[i], b->calls);
}

/* Rounds that fit into one command of a few milliseconds, so that few of them begin after a pause. */
static size_t rounds_a_command(const struct ak_judge *j) {
    double round_us = 3 * (j->own_us * (double)j->bench->calls + AK_WORKER_PAUSE_US);
    return (size_t)fmin(AK_WORKER_STEPS / AK_WORKER_SLOTS, fmax(1, 4000 / round_us));
}

/* The times of all steps and the pauses before them; 0 where one of them is impossible. */
static double claim(const struct ak_reply *r, size_t n) {
    double sum = (double)n * AK_WORKER_PAUSE_US;
    for (size_t i = 0; i < n; i++) {
        if (!(r->us[i] > 0)) return 0;
        sum += r->us[i];
    }
    return sum;
}

static void keep_samples(struct ak_bench *b, const struct ak_command *c, const struct ak_reply *r, size_t rounds) {
    size_t n = c->nsteps / rounds;
    for (size_t i = 0; i < c->nsteps; i++)
        b->samples[c->steps[i].slot][b->n + i / n] = r->us[i] / (double)b->calls;
    b->n += rounds;
}

/* ---- looking at answers ---- */

static int answer(struct ak_judge *j, uint32_t set) {
    struct ak_bench *b = j->bench;
    struct ak_where w = {0};
    if (ak_set_check(j->w.mem, &b->place, set, &b->images[set], 1, b->seed, &w) == 0 &&
        ak_want_compare(&b->want, j->w.mem, &b->place, set, &w) == 0)
        return 0;
    snprintf(w.stage, sizeof w.stage, "timing");
    snprintf(w.case_name, sizeof w.case_name, "%s", b->place.c->name);
    snprintf(w.family, sizeof w.family, "%s", b->place.c->family);
    char text[480];
    ak_where_text(text, sizeof text, &w);
    j->where = w;
    return ak_judge_say(j, AK_VERDICT_WRONG, "%s", text);
}

/* New inputs for a set, and what they should give. */
static int change(struct ak_judge *j, uint32_t set) {
    struct ak_bench *b = j->bench;
    struct ak_err err = {0};
    ak_image_touch(&b->images[set], &b->place, b->seed + b->shuffles);
    ak_want_release(&b->want);
    b->looked = set;
    if (ak_judge_want(j, &b->want, &b->place, &b->images[set], ak_rand_u64(b->seed, b->shuffles), &err) == 0) return 0;
    return ak_judge_say(j, AK_VERDICT_REFUSED, "no truth at the spec's own shape: %s", err.msg);
}

/* A round like any other, but its last set was changed under the candidate's hands; or where truth
 * takes long, is one that was changed before, its output poisoned anew. */
static int look(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    struct ak_command c = {.kind = AK_DO_TIME};
    struct ak_reply r;
    for (size_t i = rounds_a_command(j); i > 1; i--)
        add_steps(b, &c, false);
    add_steps(b, &c, true);
    struct ak_worker_step *last = &c.steps[c.nsteps - 1];
    uint32_t nsets = (uint32_t)b->place.nsets, set = (last->set + last->calls - 1) % nsets;
    if (j->heavy && b->want.n) last->set = (last->set + nsets + b->looked - set) % nsets;
    else if (change(j, set)) return -1;
    ak_set_write(j->w.mem, &b->place, b->looked, &b->images[b->looked], 1, b->seed);
    omp_pause_resource_all(omp_pause_soft);
    return ak_bench_ask(j, &c, &r, (double)(c.nsteps * b->calls), "while it was timed it") ? -1 : answer(j, b->looked);
}

/* ---- the measurement ---- */

static int set_up(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    struct ak_err err = {0};
    if (ak_worker_reserve(&j->w, b->place.end, &err)) return ak_judge_say(j, AK_VERDICT_REFUSED, "it cannot be timed: %s", err.msg);
    if (bind_sets(j) || query(j, AK_CANDIDATE)) return -1;
    if (!b->has[AK_CANDIDATE]) return ak_judge_say(j, AK_VERDICT_UNSUPPORTED, "ak_query says AK_UNSUPPORTED for the spec's own shape");
    if (lay_out(j, &err)) return ak_judge_say(j, AK_VERDICT_REFUSED, "it cannot be timed: %s", err.msg);
    write_sets(j);
    for (int s = 0; s < AK_WORKER_SLOTS; s++)
        b->samples[s] = ak_calloc(b->rounds, sizeof(double));
    return 0;
}

static bool packs(const struct ak_bench *b) {
    for (int s = 0; s < AK_WORKER_SLOTS; s++)
        if (b->has[s] && b->needs[s].packed_bytes) return true;
    return false;
}

/* Every slot goes through every set, or through as many as 10 ms allow. */
static int warm_up(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    double us;
    size_t calls = (size_t)fmin((double)b->place.nsets, fmax(1, 10e3 / j->own_us));
    for (int s = AK_WORKER_SLOTS - 1; s >= 0; s--)
        if (b->has[s] && run_step(j, (enum ak_slot)s, calls, &us)) return -1;
    return 0;
}

static int phase(struct ak_judge *j, int p, size_t until, const size_t *looks) {
    struct ak_bench *b = j->bench;
    struct ak_command c;
    struct ak_reply r;
    struct ak_clock clock = {0};
    if (give(j, p) || warm_up(j)) return -1;
    while (b->n < until) {
        size_t rounds = rounds_a_command(j);
        if (rounds > until - b->n) rounds = until - b->n;
        for (int i = 0; i < LOOKS; i++)
            if (looks[i] >= b->n && looks[i] < b->n + rounds && look(j)) return -1;
        c = (struct ak_command){.kind = AK_DO_TIME};
        for (size_t i = 0; i < rounds; i++)
            add_steps(b, &c, false);
        ak_clock_start(&clock, &j->w);
        if (ak_bench_ask(j, &c, &r, (double)(c.nsteps * b->calls), "while it was timed it")) return -1;
        int rc = ak_clock_bears_out(&clock, j, claim(&r, c.nsteps));
        if (rc < 0) return -1;
        if (rc) continue;
        keep_samples(b, &c, &r, rounds);
        clock.doubts = 0; /* a liar lies each time */
    }
    return 0;
}

struct ak_interval ak_bench_ratio(const struct ak_bench *b, enum ak_slot slot) {
    double *v = ak_calloc(b->n + 1, sizeof *v);
    for (size_t i = 0; i < b->n; i++)
        v[i] = b->samples[slot][i] / b->samples[AK_CANDIDATE][i];
    struct ak_interval r = ak_median_interval(v, b->n, 0.99);
    free(v);
    return r;
}

int ak_judge_bench(struct ak_judge *j) {
    struct ak_bench *b = j->bench;
    if (j->verdict != AK_VERDICT_PASS || set_up(j)) return -1;
    size_t looks[LOOKS];
    for (uint64_t i = 0; i < LOOKS; i++)
        looks[i] = ak_rand_u64(b->seed, UINT32_MAX + i) % b->rounds;
    if (j->heavy) looks[1] = looks[2] = SIZE_MAX;
    omp_pause_resource_all(omp_pause_soft); /* threads that wait by spinning would disturb */
    int phases = packs(b) ? AK_WORKER_SLOTS : 1;
    for (int p = 0; p < phases; p++)
        if (phase(j, p, b->rounds * (size_t)(p + 1) / (size_t)phases, looks)) return -1;
    struct ak_interval own = ak_median_interval(b->samples[AK_CANDIDATE], b->n, 0.99);
    j->timing = (struct ak_timing){.latency_us = own.median, .low_us = own.low, .high_us = own.high, .prepare_us = b->prepare_us, .calls = b->calls,
                                   .opponent_threads = b->threads ? (int)b->threads : omp_get_max_threads()};
    if (b->has[AK_INCUMBENT]) j->timing.incumbent = ak_bench_ratio(b, AK_INCUMBENT);
    if (b->has[AK_OPPONENT]) j->timing.opponent = ak_bench_ratio(b, AK_OPPONENT);
    return ak_bench_believe(j) || look(j) || ak_judge_habits(j) ? -1 : 0;
}
