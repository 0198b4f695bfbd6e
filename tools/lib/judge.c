/* A judge's life: its worker, truths and verdict. */
#include "judge.h"

#include <omp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge_case.h"
#include "mem.h"

const char *ak_verdict_name(enum ak_verdict v) {
    static const char *const names[] = {
#define X(id, name) [AK_VERDICT_##id] = name,
        AK_VERDICTS(X)
#undef X
    };
    return names[v];
}

int ak_judge_say(struct ak_judge *j, enum ak_verdict v, const char *fmt, ...) {
    if (j->verdict != AK_VERDICT_PASS) return -1;
    j->verdict = v;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->why, sizeof j->why, fmt, ap);
    va_end(ap);
    for (char *c = j->why; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    return -1;
}

int ak_judge_do(struct ak_judge *j, const struct ak_command *c, struct ak_reply *r, double limit_s, const char *doing) {
    if (ak_worker_do(&j->w, c, r, limit_s) == 0) return 0;
    j->killed = j->w.state == AK_WORKER_KILLED;
    return ak_judge_say(j, j->w.state == AK_WORKER_HUNG ? AK_VERDICT_HANG : AK_VERDICT_CRASH, "%s %s", doing, j->w.why);
}

/* A kernel a hundred times slower than its opponent is slow; what takes longer hangs. */
double ak_judge_limit(const struct ak_judge *j, double calls) { return j->opt.timeout_s + 100e-6 * j->own_us * calls; }

struct ak_truth *ak_judge_truth(struct ak_judge *j, const struct ak_case *c, struct ak_err *err) {
    struct ak_truth *t = &j->truths[c->graph - j->spec->graphs];
    if (!t->exec && ak_truth_init(t, c->graph, err)) return NULL;
    return t;
}

int ak_judge_want(struct ak_judge *j, struct ak_want *w, const struct ak_place *p, const struct ak_image *im, uint64_t seed, struct ak_err *err) {
    bool slow = j->heavy && p->c == j->spec->cases;
    int rc = slow ? ak_want_sample(w, j, p, im, seed, err) : 1;
    if (rc <= 0) return rc;
    struct ak_truth *t = ak_judge_truth(j, p->c, err);
    return t ? ak_want_make(w, t, p, im, !slow, seed, err) : -1;
}

static int load(struct ak_judge *j, enum ak_slot slot, const char *path, struct ak_reply *r, const char *doing) {
    struct ak_command c = {.kind = AK_DO_LOAD, .slot = slot};
    snprintf(c.path, sizeof c.path, "%s", path);
    return ak_judge_do(j, &c, r, j->opt.timeout_s, doing);
}

/* Ours: that one of them does not load is no verdict on the candidate. */
static int load_ours(struct ak_judge *j, enum ak_slot slot, const char *path, struct ak_err *err) {
    struct ak_reply r;
    if (!path) return 0;
    if (load(j, slot, path, &r, "loading")) return j->killed ? -1 : ak_fail(err, AK_EXIT_INPUT, "'%s' cannot be loaded: it %s", path, j->w.why);
    return r.status == AK_OK ? 0 : ak_fail(err, AK_EXIT_INPUT, "%s", r.text);
}

static int load_candidate(struct ak_judge *j) {
    struct ak_reply r;
    j->loaded = true;
    if (load(j, AK_CANDIDATE, j->opt.candidate, &r, "while it was loaded it")) return -1;
    return r.status == AK_OK ? 0 : ak_judge_say(j, AK_VERDICT_LOAD_FAIL, "%s", r.text);
}

/* OpenMP's, and those that our kernels had started before the candidate was there. */
static int usual_threads(int before) {
    int n = omp_get_max_threads();
    return n > before ? n : before;
}

/* A kernel allocates nothing; a few MB are a library's that it links. One that took more would make
 * hard cases fail for want of memory. Threads beside OpenMP's would work while another is timed. */
int ak_judge_habits(struct ak_judge *j) {
    size_t mb = ak_worker_private_mb(&j->w);
    int threads = ak_worker_threads(&j->w), usual = usual_threads(j->threads_before);
    if (mb > j->mb_before + 200) return ak_judge_say(j, AK_VERDICT_REFUSED, "it took %zu MB of memory of its own", mb - j->mb_before);
    for (int ms = 0; ms < 100 && threads > usual; ms++) { /* a team that became smaller: its last threads are on their way out */
        poll(NULL, 0, 1);
        threads = ak_worker_threads(&j->w);
    }
    if (threads > usual) return ak_judge_say(j, AK_VERDICT_REFUSED, "it has %d threads where OpenMP has %d", threads, usual);
    return 0;
}

int ak_judge_start(struct ak_judge *j, const struct ak_spec *spec, const struct ak_judge_options *opt, struct ak_err *err) {
    static const char *const names[AK_NSTAGES] = {"smoke", "shapes", "stability", "determinism", "edge"};
    *j = (struct ak_judge){.spec = spec, .opt = *opt};
    for (size_t i = 0; i < AK_NSTAGES; i++)
        j->stages[i].name = names[i];
    if (spec->nargs > AK_WORKER_ARGS || spec->nattrs > AK_WORKER_ARGS)
        return ak_fail(err, AK_EXIT_INPUT, "'%s' has more arguments than the judge can pass", spec->name);
    j->truths = ak_calloc(spec->ngraphs + 1, sizeof *j->truths);
    if (ak_worker_start(&j->w, err)) return -1;
    int rc = load_ours(j, AK_OPPONENT, opt->opponent, err) || load_ours(j, AK_INCUMBENT, opt->incumbent, err) || ak_bench_plan(j, err);
    if (rc) return j->killed ? 0 : -1;
    j->mb_before = ak_worker_private_mb(&j->w);
    j->threads_before = ak_worker_threads(&j->w);
    load_candidate(j);
    return 0;
}

void ak_judge_stop(struct ak_judge *j) {
    ak_worker_stop(&j->w);
    ak_bench_free(j->bench);
    ak_kernel_close(&j->own);
    for (size_t i = 0; j->truths && i < j->spec->ngraphs; i++)
        ak_truth_release(&j->truths[i]);
    free(j->truths);
    j->truths = NULL;
    j->bench = NULL;
}

void ak_where_text(char *to, size_t size, const struct ak_where *w) {
    int n = snprintf(to, size, "%s: %s%s%s", w->stage, w->what, w->arg[0] ? ", " : "", w->arg);
    if (n < 0 || (size_t)n >= size) return;
    to += n, size -= (size_t)n;
    if (w->element)
        n = snprintf(to, size, "%s is %.9g, not %s%.9g (+- %.2g); %lld of %lld elements", w->index, w->got, w->opponents ? "the opponent's " : "", w->want, w->allowed, (long long)w->wrong,
                     (long long)w->of);
    else
        n = snprintf(to, size, "%s%s", w->index[0] ? ": " : "", w->index);
    if (n < 0 || (size_t)n >= size) return;
    snprintf(to + n, size - (size_t)n, "; case '%s', %s", w->case_name, w->family);
}
