/* ak-rank - what is worth doing, what was kept, and how far the search has come
 *
 *     ak-rank plan [-o FILE] [PROFILE]      what of a profile is worth doing
 *     ak-rank next RUN                      the spec that the next experiments should go to, and why
 *     ak-rank record [--results FILE] RUN   keep or revert, and the log
 *     ak-rank status RUN                    how far the search has come
 *     ak-rank find --spec PART RUN          the whole name of a spec
 *     ak-rank verdict --spec PART RUN       what became of its last trial, or of --trial
 *
 *     ak-import gpt2-mini | ak-profile - | ak-rank plan - | head
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "option.h"
#include "plan.h"
#include "run.h"

static const char *out_path = "-", *rank_path, *decide_path, *strategy_path, *results_path, *spec_name, *trial_hash, *env_path;
static int64_t top = 4;
static double budget_s = 60;
static bool as_json, as_table, with_batch;
static const struct ak_option options[] = {
    {'o', "output", "FILE", "plan: write JSON there", AK_OPT_STR, &out_path},
    {'j', "json", NULL, "plan, next: JSON, on a terminal too", AK_OPT_FLAG, &as_json},
    {0, "table", NULL, "plan: for people, into a pipe too", AK_OPT_FLAG, &as_table},
    {0, "batch", NULL, "next: say last how many candidates a round may have", AK_OPT_FLAG, &with_batch},
    {'t', "top", "N", "next: only the first N specs of the plan", AK_OPT_INT, &top},
    {'b', "budget", "SECONDS", "next: seconds of search in all", AK_OPT_NUM, &budget_s},
    {0, "results", "FILE", "record: the log (default: RUN/results.tsv)", AK_OPT_STR, &results_path},
    {'s', "spec", "NAME", "find, verdict: a spec's name, or a part that no other has", AK_OPT_STR, &spec_name},
    {0, "trial", "HASH", "verdict: that trial (default: the spec's last)", AK_OPT_STR, &trial_hash},
    {'e', "env", "FILE", "only trials of these flags and compiler (default: those of a spec's last round)", AK_OPT_STR, &env_path},
    {0, "rank", "FILE", "the rule that ranks", AK_OPT_STR, &rank_path},
    {0, "decide", "FILE", "the rule that keeps or reverts", AK_OPT_STR, &decide_path},
    {0, "strategy", "FILE", "the strategy that budgets are counted against", AK_OPT_STR, &strategy_path},
    {0},
};

static struct ak_err err;

static struct ak_rules *rules(const char *path) {
    struct ak_rules *r = ak_rules_open(path, &err);
    if (!r) ak_die_err(&err);
    return r;
}

static int plan(const char *profile) {
    struct ak_rules *rank = rules(rank_path);
    cJSON *made = ak_plan_make(profile, rank, &err);
    struct ak_out out;
    if (!made || ak_out_open(&out, out_path, &err)) ak_die_err(&err);
    if (as_table || (strcmp(out_path, "-") == 0 && isatty(STDOUT_FILENO) && !as_json)) {
        if (ak_plan_print(made, out.f, &err)) ak_die_err(&err);
    } else {
        ak_json_print(out.f, made);
    }
    if (ak_out_close(&out, &err)) ak_die_err(&err);
    cJSON_Delete(made);
    ak_rules_close(rank);
    return AK_EXIT_YES;
}

static void open_run(struct ak_run *r, const char *dir) {
    struct ak_rules *decide = rules(decide_path);
    if (ak_run_read(r, dir, env_path, decide, &err)) ak_die_err(&err);
    ak_rules_close(decide);
}

/* How far the search of a spec has come, and how long it may go on. */
static void print_progress(const struct ak_run *r, const char *spec, double spent_s) {
    for (size_t i = 0; i < r->n; i++) {
        const cJSON *best = strcmp(r->specs[i].name, spec) ? NULL : ak_run_best(&r->specs[i]), *vs = best ? ak_json_get(best, "vs_opponent") : NULL;
        if (vs) printf("; best %.3fx the opponent", ak_json_number(vs, "speedup"));
    }
    printf("; %.0f of %g s left", budget_s - spent_s, budget_s);
}

/* So many candidates that a round takes an eighth of the budget at most: then several kernels have their turn. */
static int batch_of(const cJSON *state, const char *spec) {
    const cJSON *s;
    int n = 12;
    cJSON_ArrayForEach(s, ak_json_get(state, "specs")) {
        double each = ak_json_number(s, "spent_s") / ak_json_number(s, "trials");
        if (strcmp(ak_json_string(s, "spec", ""), spec) == 0 && each > budget_s / 8 / n) n = (int)(budget_s / 8 / each);
    }
    return n > 2 ? n : 2;
}

/* "SPEC<TAB>why[<TAB>candidates]"; exit 1 when the search is over. */
static int next(const char *dir) {
    struct ak_run r;
    open_run(&r, dir);
    char *strategy = ak_file_read(strategy_path, AK_FILE_LIMIT, NULL, &err);
    cJSON *state = strategy ? ak_run_state(&r, strategy, top, budget_s, &err) : NULL;
    struct ak_rules *rank = rules(rank_path);
    cJSON *made = state ? ak_rules_call(rank, "next", state, &err) : NULL;
    const char *why, *spec = NULL;
    if (!made || ak_json_str(made, "why", &why, &err)) ak_die_err(&err);
    if (ak_json_get(made, "spec") && ak_json_str(made, "spec", &spec, &err)) ak_die_err(&err);
    if (as_json) {
        ak_json_print(stdout, made);
    } else if (spec) {
        printf("%s\t%s", spec, why);
        print_progress(&r, spec, ak_json_number(state, "spent_s"));
        if (with_batch) printf("\t%d", batch_of(state, spec));
        putchar('\n');
    } else if (!ak_option_quiet) {
        ak_warn("the search is over: %s", why);
    }
    int status = spec ? AK_EXIT_YES : AK_EXIT_NO;
    cJSON_Delete(made);
    cJSON_Delete(state);
    free(strategy);
    ak_rules_close(rank);
    ak_run_release(&r);
    return status;
}

static void print_interval(const char *name, const cJSON *v) {
    double speedup, low, high;
    if (!v || ak_json_num(v, "speedup", &speedup, &err) || ak_json_num(v, "low", &low, &err) || ak_json_num(v, "high", &high, &err)) return;
    printf("%s: %.3f [%.3f, %.3f]\n", name, speedup, low, high);
}

static struct ak_run_spec *wanted(struct ak_run *r, const char *dir) {
    if (!spec_name) ak_usage_error("--spec is wanted");
    open_run(r, dir);
    struct ak_run_spec *s = ak_run_find(r, spec_name, &err);
    if (!s) ak_die_err(&err);
    return s;
}

static int find(const char *dir) {
    struct ak_run r;
    puts(wanted(&r, dir)->name);
    ak_run_release(&r);
    return AK_EXIT_YES;
}

/* The last trial of a spec in lines that grep finds. */
static int verdict(const char *dir) {
    struct ak_run r;
    struct ak_run_spec *s = wanted(&r, dir);
    if (!s->trials.n) ak_die(AK_EXIT_INPUT, "'%s' has no trials", s->name);
    const struct ak_trial *t = trial_hash ? ak_trials_find(&s->trials, trial_hash) : &s->trials.trials[s->trials.n - 1];
    if (!t) ak_die(AK_EXIT_USAGE, "'%s' has no trial '%s'", s->name, trial_hash);
    const char *seen = "?";
    double us;
    if (!t->facts || ak_json_str(t->facts, "verdict", &seen, &err)) ak_die(AK_EXIT_INPUT, "trial %s of '%s' is not judged yet", t->hash, s->name);
    printf("spec: %s\nverdict: %s\nwhy: %s\ncorrectness: %s\n", s->name, t->decision, t->why, strcmp(seen, "pass") ? seen : "PASS");
    if (ak_json_num(t->facts, "latency_us", &us, &err) == 0) printf("latency_us: %.2f\n", us);
    print_interval("speedup_vs_incumbent", ak_json_get(t->facts, "vs_incumbent"));
    print_interval("speedup_vs_opponent", ak_json_get(t->facts, "vs_opponent"));
    printf("source: %s/trials/%s/kernel.c\n", s->trials.dir, t->hash);
    bool kept = strcmp(t->decision, "keep") == 0 || strcmp(t->decision, "start") == 0;
    ak_run_release(&r);
    return kept ? AK_EXIT_YES : AK_EXIT_NO;
}

static int take_ranges(const struct ak_run_spec *s) {
    const char *type;
    if (ak_json_str(s->planned, "type", &type, &err)) return -1;
    char *starter = ak_starter_read(type, &err);
    int rc = starter ? ak_trials_take_ranges(&s->trials, starter, &err) : -1;
    free(starter);
    return rc;
}

/* Prints "build SPEC-FOLDER HASH" for an incumbent whose library has to be built again. */
static int record(const char *dir) {
    struct ak_run r;
    struct ak_out out;
    open_run(&r, dir);
    char *path = results_path ? ak_strdup(results_path) : ak_path_join(dir, "results.tsv");
    if (ak_out_open(&out, path, &err) || ak_run_results(&r, out.f, &err) || ak_out_close(&out, &err)) ak_die_err(&err);
    for (size_t i = 0; i < r.n; i++) {
        int rc = take_ranges(&r.specs[i]) ? -1 : ak_trials_sync(&r.specs[i].trials, &err);
        if (rc < 0) ak_die_err(&err);
        if (rc > 0) printf("build\t%s\t%s\n", r.specs[i].trials.dir, r.specs[i].trials.trials[r.specs[i].trials.incumbent].hash);
    }
    free(path);
    ak_run_release(&r);
    return AK_EXIT_YES;
}

static int status(const char *dir) {
    struct ak_run r;
    open_run(&r, dir);
    ak_run_status(&r, stdout);
    ak_run_release(&r);
    return AK_EXIT_YES;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const char *operand);
        bool needs_operand;
    } verbs[] = {{"plan", plan, false}, {"next", next, true}, {"record", record, true}, {"status", status, true},
               {"find", find, true},   {"verdict", verdict, true}};
    rank_path = ak_path_join(ak_home(), "rules/rank.lua");
    decide_path = ak_path_join(ak_home(), "rules/decide.lua");
    strategy_path = ak_path_join(ak_home(), "rules/strategy.lua");
    int first = ak_options(argc, argv, "plan [PROFILE] | next RUN | record RUN | status RUN | find RUN | verdict RUN",
                           "Says what is worth doing, what was kept, and how far the search has come. next exits with 1 when the\n"
                           "search is over, verdict unless the trial was kept or is the start.", options);
    if (first == argc) ak_usage_error("a verb is wanted: plan, next, record, status, find or verdict");
    /* options may follow the verb */
    const char *verb = argv[first];
    int rest = first + ak_options(argc - first, argv + first, "", "", options);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, verb)) continue;
        if (argc - rest > 1 || (verbs[i].needs_operand && rest == argc)) ak_usage_error("%s wants one %s", verb, i ? "run's folder" : "profile");
        int rc = verbs[i].run(rest < argc ? argv[rest] : "-");
        if (fflush(stdout) || ferror(stdout)) ak_die_errno(AK_EXIT_IO, "cannot write standard output");
        return rc;
    }
    ak_usage_error("there is no verb '%s'; there are plan, next, record, status, find and verdict", verb);
}
