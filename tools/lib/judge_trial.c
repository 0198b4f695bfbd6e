/* A whole trial, and facts.json: what was seen, nothing that was decided. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "host.h"
#include "json.h"
#include "judge.h"
#include "judge_case.h"
#include "mem.h"
#include "rand.h"

/* ---- parts of the record ---- */

static cJSON *ratio_json(const struct ak_interval *r, const char *key, const char *name) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, key, name ? name : "-");
    ak_json_add_num(o, "speedup", r->median);
    ak_json_add_num(o, "low", r->low);
    ak_json_add_num(o, "high", r->high);
    ak_json_add_i64(o, "n", (int64_t)r->n);
    return o;
}

static void add_ratios(cJSON *o, const struct ak_timing *t, const struct ak_trial_options *opt) {
    if (t->incumbent.n) cJSON_AddItemToObject(o, "vs_incumbent", ratio_json(&t->incumbent, "hash", opt->incumbent_hash));
    if (!t->opponent.n) return;
    cJSON *opponent = ratio_json(&t->opponent, "by", opt->opponent_name);
    ak_json_add_i64(opponent, "threads", t->opponent_threads);
    cJSON_AddItemToObject(o, "vs_opponent", opponent);
}

static void add_timing(cJSON *o, const struct ak_spec *s, const struct ak_timing *t, const struct ak_trial_options *opt) {
    ak_json_add_num(o, "latency_us", t->latency_us);
    ak_json_add_num(o, "latency_low_us", t->low_us);
    ak_json_add_num(o, "latency_high_us", t->high_us);
    ak_json_add_num(o, "gflops", s->flops / t->latency_us * 1e-3);
    ak_json_add_num(o, "gbps", s->bytes / t->latency_us * 1e-3);
    if (opt->ceilings) {
        const char *bound;
        double floor_us = ak_floor_us(opt->ceilings, s->bytes, s->flops, &bound);
        ak_json_add_num(o, "floor_us", floor_us);
        ak_json_add_num(o, "pct_floor", 100 * floor_us / t->latency_us);
        cJSON_AddStringToObject(o, "bound", bound);
    } else {
        cJSON_AddNullToObject(o, "floor_us");
        cJSON_AddNullToObject(o, "pct_floor");
        cJSON_AddNullToObject(o, "bound");
    }
    ak_json_add_num(o, "prepare_us", t->prepare_us);
    ak_json_add_i64(o, "calls_per_sample", (int64_t)t->calls);
    add_ratios(o, t, opt);
}

static void add_where(cJSON *o, const struct ak_where *w) {
    cJSON *p = cJSON_AddObjectToObject(o, "where");
    cJSON_AddStringToObject(p, "stage", w->stage);
    cJSON_AddStringToObject(p, "case", w->case_name);
    cJSON_AddStringToObject(p, "family", w->family);
    cJSON_AddStringToObject(p, "what", w->what);
    cJSON_AddStringToObject(p, "arg", w->arg);
    cJSON_AddStringToObject(p, "index", w->index);
    if (!w->element) return;
    ak_json_add_num(p, "got", w->got);
    ak_json_add_num(p, "want", w->want);
    ak_json_add_num(p, "allowed", w->allowed);
    ak_json_add_i64(p, "wrong", w->wrong);
    ak_json_add_i64(p, "of", w->of);
}

static void add_check(cJSON *o, const struct ak_judge *j) {
    cJSON *check = cJSON_AddObjectToObject(o, "check"), *stages = cJSON_AddArrayToObject(check, "stages");
    for (size_t i = 0; i < AK_NSTAGES; i++) {
        const struct ak_stage *s = &j->stages[i];
        cJSON *e = cJSON_CreateObject();
        cJSON_AddStringToObject(e, "stage", s->name);
        ak_json_add_i64(e, "cases", (int64_t)s->cases);
        ak_json_add_i64(e, "passed", (int64_t)s->passed);
        ak_json_add_i64(e, "unsupported", (int64_t)s->unsupported);
        cJSON_AddItemToArray(stages, e);
    }
    if (j->where.what[0]) add_where(check, &j->where);
}

static double now_s(void) { return ak_now_us() * 1e-6; }

/* The first line of the compiler's words that tells an error; caller frees. */
static char *first_error(const char *path) {
    struct ak_err err = {0};
    char *text = path ? ak_file_read(path, 1 << 24, NULL, &err) : NULL;
    if (!text) return ak_strdup(path ? "the compiler left no word" : "");
    char *save, *first = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strstr(line, "error") || strstr(line, "undefined reference")) {
            first = line;
            break;
        }
    }
    char *copy = first ? ak_asprintf("%.400s", first) : ak_strdup("");
    free(text);
    return copy;
}

static void add_head(cJSON *o, const struct ak_spec *s, const struct ak_trial_options *opt) {
    cJSON_AddStringToObject(o, "format", "ak-facts");
    ak_json_add_i64(o, "version", 1);
    cJSON_AddStringToObject(o, "hash", opt->hash);
    cJSON_AddStringToObject(o, "spec", s->name);
    cJSON_AddStringToObject(o, "type", s->type);
}

static void add_verdict(cJSON *o, enum ak_verdict v, const char *why) {
    cJSON_AddStringToObject(o, "verdict", ak_verdict_name(v));
    cJSON_AddStringToObject(o, "why", why);
}

static void add_tail(cJSON *o, long peak_kb, double from_s) {
    char when[32];
    ak_json_add_num(o, "peak_rss_mb", (double)peak_kb / 1024);
    ak_json_add_num(o, "elapsed_s", now_s() - from_s);
    cJSON_AddItemToObject(o, "host", ak_host_info());
    ak_json_add_i64(o, "judge", AK_JUDGE_VERSION);
    cJSON_AddStringToObject(o, "time", ak_host_time(when));
}

/* ---- processes ---- */

/* One worker's life; j is stopped, but its findings stay. 0, or -1 if the judge cannot work. */
static int one_process(struct ak_judge *j, const struct ak_spec *spec, const struct ak_trial_options *opt, bool check, struct ak_err *err) {
    int rc = ak_judge_start(j, spec, &opt->judge, err);
    if (!rc && check && j->verdict == AK_VERDICT_PASS) ak_judge_check(j, opt->stage);
    if (!rc && opt->bench && j->verdict == AK_VERDICT_PASS) ak_judge_bench(j);
    ak_judge_stop(j);
    return rc;
}

/* A worker killed from outside says nothing of the candidate: once more, and then it does. */
static int process(struct ak_judge *j, const struct ak_spec *spec, const struct ak_trial_options *opt, bool check, struct ak_err *err) {
    int rc = one_process(j, spec, opt, check, err);
    if (!rc && j->killed) rc = one_process(j, spec, opt, check, err);
    if (!rc && j->killed && !j->loaded) return ak_fail(err, AK_EXIT_IO, "the worker was killed from outside, twice");
    return rc;
}

static int again(cJSON *o, struct ak_judge *first, const struct ak_spec *spec, struct ak_trial_options opt, struct ak_err *err) {
    struct ak_judge j;
    opt.judge.seed = ak_rand_seed(opt.judge.seed, "again");
    if (process(&j, spec, &opt, false, err)) return -1;
    if (j.verdict == AK_VERDICT_PASS) {
        add_ratios(cJSON_AddObjectToObject(o, "again"), &j.timing, &opt);
        return 0;
    }
    first->verdict = j.verdict; /* a kernel that fails the second time fails */
    memcpy(first->why, j.why, sizeof first->why);
    first->where = j.where;
    return 0;
}

cJSON *ak_judge_trial(const struct ak_spec *spec, const struct ak_trial_options *opt, struct ak_err *err) {
    double from = now_s();
    char *log = first_error(opt->cc_log);
    cJSON *o = cJSON_CreateObject(), *rest = cJSON_CreateObject();
    struct ak_judge j = {0};
    int rc = 0;
    add_head(o, spec, opt);
    if (!ak_file_exists(opt->judge.candidate) && opt->cc_log) {
        add_verdict(o, AK_VERDICT_COMPILE_FAIL, log[0] ? log : "the compiler made nothing of it");
    } else {
        rc = process(&j, spec, opt, opt->check, err);
        if (!rc && j.verdict == AK_VERDICT_PASS && opt->bench) {
            add_timing(rest, spec, &j.timing, opt);
            if (j.timing.incumbent.n && j.timing.incumbent.low > 1) rc = again(rest, &j, spec, *opt, err);
        }
        add_verdict(o, j.verdict, j.why);
        ak_json_add_i64(o, "seed", (int64_t)opt->judge.seed);
        if (opt->check) add_check(o, &j);
    }
    if (opt->cc_log) cJSON_AddStringToObject(cJSON_AddObjectToObject(o, "build"), "log", log);
    for (cJSON *item; !rc && (item = rest->child);)
        cJSON_AddItemToObject(o, item->string, cJSON_DetachItemViaPointer(rest, item));
    cJSON_Delete(rest);
    free(log);
    if (!rc) add_tail(o, j.w.peak_kb, from);
    if (!rc) return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- for people ---- */

static void print_ratio(FILE *f, const cJSON *facts, const char *key, const char *name) {
    const cJSON *r = ak_json_get(facts, key);
    if (!r) return;
    const char *by = ak_json_string(r, name, "");
    fprintf(f, "%s: %.4f [%.4f, %.4f] n=%.0f %s\n", key, ak_json_number(r, "speedup"), ak_json_number(r, "low"), ak_json_number(r, "high"), ak_json_number(r, "n"), by);
}

void ak_facts_print_line(FILE *f, const cJSON *facts) {
    const cJSON *inc = ak_json_get(facts, "vs_incumbent"), *opp = ak_json_get(facts, "vs_opponent");
    fprintf(f, "%.8s %s", ak_json_string(facts, "hash", ""), ak_json_string(facts, "verdict", ""));
    if (ak_json_get(facts, "latency_us")) fprintf(f, " %.3f us", ak_json_number(facts, "latency_us"));
    if (inc) fprintf(f, ", %.3fx the incumbent", ak_json_number(inc, "speedup"));
    if (opp) fprintf(f, ", %.3fx the opponent", ak_json_number(opp, "speedup"));
    fprintf(f, "%s%s\n", ak_json_string(facts, "why", "")[0] ? ": " : "", ak_json_string(facts, "why", ""));
}

void ak_facts_print(FILE *f, const cJSON *facts) {
    const cJSON *s, *check = ak_json_get(facts, "check");
    fprintf(f, "verdict: %s\n", ak_json_string(facts, "verdict", ""));
    if (ak_json_string(facts, "why", "")[0]) fprintf(f, "why: %s\n", ak_json_string(facts, "why", ""));
    const cJSON *stages = check ? ak_json_get(check, "stages") : NULL;
    cJSON_ArrayForEach(s, stages) {
        if (ak_json_number(s, "cases") == 0) continue;
        fprintf(f, "%s: %.0f of %.0f cases right", ak_json_string(s, "stage", ""), ak_json_number(s, "passed"), ak_json_number(s, "cases"));
        if (ak_json_number(s, "unsupported") > 0) fprintf(f, ", %.0f not supported", ak_json_number(s, "unsupported"));
        fputc('\n', f);
    }
    if (ak_json_get(facts, "latency_us")) {
        fprintf(f, "latency_us: %.3f [%.3f, %.3f]\ngflops: %.4g\ngbps: %.4g\n", ak_json_number(facts, "latency_us"), ak_json_number(facts, "latency_low_us"),
                ak_json_number(facts, "latency_high_us"), ak_json_number(facts, "gflops"), ak_json_number(facts, "gbps"));
        if (!isnan(ak_json_number(facts, "pct_floor")))
            fprintf(f, "pct_floor: %.1f (%s-bound)\n", ak_json_number(facts, "pct_floor"), ak_json_string(facts, "bound", ""));
        print_ratio(f, facts, "vs_incumbent", "hash");
        print_ratio(f, facts, "vs_opponent", "by");
    }
    if (ak_json_get(facts, "seed")) fprintf(f, "seed: %.0f\n", ak_json_number(facts, "seed"));
}

bool ak_facts_pass(const cJSON *facts) { return strcmp(ak_json_string(facts, "verdict", ""), "pass") == 0; }

int ak_facts_write(const cJSON *facts, const char *path, struct ak_err *err) {
    struct ak_out out;
    if (ak_out_open(&out, path ? path : "-", err)) return -1;
    if (path)
        ak_json_print_pretty(out.f, facts);
    else
        ak_facts_print(out.f, facts);
    return ak_out_close(&out, err);
}
