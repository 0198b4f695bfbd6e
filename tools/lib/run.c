#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "host.h"
#include "json.h"
#include "mem.h"
#include "plan.h"

/* A folder that is not extracted yet has no trials, whatever they would depend on. */
static int read_trials(struct ak_run_spec *s, const char *folder, const char *build, struct ak_err *err) {
    char *spec = ak_path_join(folder, "spec.json"), *env = build && ak_file_exists(spec) ? ak_trial_env(folder, build, err) : NULL, hash[33];
    int rc = env || !build || !ak_file_exists(spec) ? 0 : -1;
    if (env) ak_text_hash(env, hash);
    if (rc == 0) rc = ak_trials_read(&s->trials, folder, env ? hash : NULL, err);
    free(env);
    free(spec);
    return rc;
}

int ak_run_read(struct ak_run *r, const char *dir, const char *build, struct ak_rules *decide, struct ak_err *err) {
    *r = (struct ak_run){.dir = ak_strdup(dir)};
    char *path = ak_path_join(dir, "plan.json");
    const cJSON *specs, *s;
    r->plan = ak_plan_read(path, err);
    int rc = r->plan ? ak_json_array(r->plan, "specs", &specs, err) : -1;
    if (rc == 0) r->specs = ak_calloc((size_t)cJSON_GetArraySize(specs) + 1, sizeof *r->specs);
    if (rc == 0) cJSON_ArrayForEach(s, specs) {
        struct ak_run_spec *spec = &r->specs[r->n];
        spec->planned = s;
        rc = ak_json_str(s, "spec", &spec->name, err);
        char *folder = rc ? NULL : ak_asprintf("%s/specs/%s", dir, spec->name);
        if (rc == 0 && (rc = read_trials(spec, folder, build, err)) == 0) r->n++;
        free(folder);
        if (rc == 0) rc = ak_trials_decide(&spec->trials, decide, err);
        if (rc) break;
    }
    free(path);
    if (rc) ak_run_release(r);
    return rc;
}

void ak_run_release(struct ak_run *r) {
    for (size_t i = 0; i < r->n; i++)
        ak_trials_release(&r->specs[i].trials);
    free(r->specs);
    cJSON_Delete(r->plan);
    free(r->dir);
    *r = (struct ak_run){0};
}

struct ak_run_spec *ak_run_find(struct ak_run *r, const char *name, struct ak_err *err) {
    struct ak_run_spec *found = NULL;
    int hits = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->specs[i].name, name) == 0) return &r->specs[i];
        if (strstr(r->specs[i].name, name)) {
            found = &r->specs[i];
            hits++;
        }
    }
    if (hits == 1) return found;
    ak_fail(err, AK_EXIT_USAGE, "%s spec is called '%s'; there are:", hits ? "more than one" : "no", name);
    for (size_t i = 0; i < r->n; i++) {
        size_t at = strlen(err->msg);
        if (!hits || strstr(r->specs[i].name, name)) snprintf(err->msg + at, sizeof err->msg - at, " %s", r->specs[i].name);
    }
    return NULL;
}

const cJSON *ak_run_best(const struct ak_run_spec *s) {
    return s->trials.incumbent < 0 ? NULL : s->trials.trials[s->trials.incumbent].facts;
}

static const cJSON *opponent(const cJSON *facts) { return facts ? ak_json_get(facts, "vs_opponent") : NULL; }

/* Seconds that building and judging a round took; of one that was cut short, what its trials say. */
static double round_s(const struct ak_trials *t, const struct ak_round *r) {
    double s = 0;
    for (size_t i = r->first; i < r->first + r->n; i++) {
        double e = ak_json_number(t->trials[i].facts, "elapsed_s");
        if (e > 0) s += e;
    }
    return r->wall_s > s ? r->wall_s : s;
}

static double spent(const struct ak_trials *t, const char *key) {
    double s = 0;
    for (size_t r = 0; r < t->nrounds; r++)
        if (strcmp(t->rounds[r].key, key) == 0) s += round_s(t, &t->rounds[r]);
    return s;
}

/* When this key's first trial was made, if another key came before it: "" if none did, NULL if it has no trial yet. */
static const char *edited_at(const struct ak_trials *t, const char *key) {
    if (!t->nrounds || strcmp(t->rounds[0].key, key) == 0) return "";
    for (size_t i = 0; i < t->n; i++)
        if (t->trials[i].facts && strcmp(t->rounds[t->trials[i].round].key, key) == 0) return ak_json_string(t->trials[i].facts, "time", "");
    return NULL;
}

/* Seconds of the rounds that were begun since then. */
static double spent_since(const struct ak_run *r, const char *when) {
    double s = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct ak_trials *t = &r->specs[i].trials;
        for (size_t k = 0; k < t->nrounds; k++) {
            const cJSON *facts = t->rounds[k].n ? t->trials[t->rounds[k].first].facts : NULL;
            if (facts && strcmp(ak_json_string(facts, "time", ""), when) >= 0) s += round_s(t, &t->rounds[k]);
        }
    }
    return s;
}

/* Rounds since the last gain, of those under this key. */
static int barren(const struct ak_trials *t, const char *key) {
    int n = 0;
    for (size_t r = t->nrounds; r-- > 0 && strcmp(t->rounds[r].key, key) == 0; n++)
        for (size_t i = 0; i < t->rounds[r].n; i++) {
            const char *d = t->trials[t->rounds[r].first + i].decision;
            if (d && (strcmp(d, "keep") == 0 || strcmp(d, "start") == 0)) return n;
        }
    return n;
}

static bool exhausted(const struct ak_trials *t, const char *key) {
    char *path = ak_path_join(t->dir, "exhausted"), found[33], env[33];
    struct ak_err ignored;
    char *text = ak_file_exists(path) ? ak_file_read(path, 4096, NULL, &ignored) : NULL;
    size_t n;
    bool yes = text && sscanf(text, "%32s %zu %32s", found, &n, env) == 3 && strcmp(found, key) == 0 && n == t->n && strcmp(env, t->env) == 0;
    free(text);
    free(path);
    return yes;
}

static int spec_key(const struct ak_run_spec *s, const char *strategy, char key[static 33], struct ak_err *err) {
    char *path = ak_path_join(s->trials.dir, "kernel.c"), *source = ak_file_read(path, AK_FILE_LIMIT, NULL, err);
    struct ak_knobs knobs;
    int rc = source && ak_knobs_parse(&knobs, source, path, err) == 0 ? 0 : -1;
    if (rc == 0) {
        ak_search_key(strategy, &knobs, key);
        ak_knobs_release(&knobs);
    }
    free(source);
    free(path);
    return rc;
}

cJSON *ak_run_state(const struct ak_run *r, const char *strategy, int64_t top, double budget_s, struct ak_err *err) {
    cJSON *o = cJSON_CreateObject(), *specs = cJSON_AddArrayToObject(o, "specs");
    const char *last_edit = "";
    for (size_t i = 0; i < r->n && (int64_t)i < top; i++) {
        const struct ak_run_spec *s = &r->specs[i];
        char key[33];
        if (spec_key(s, strategy, key, err)) {
            cJSON_Delete(o);
            return NULL;
        }
        cJSON *e = cJSON_CreateObject();
        static const char *const copied[] = {"spec", "type", "calls", "time_us", "floor_us"};
        for (size_t k = 0; k < sizeof copied / sizeof *copied; k++)
            cJSON_AddItemToObject(e, copied[k], cJSON_Duplicate(ak_json_get(s->planned, copied[k]), true));
        double speedup = ak_json_number(opponent(ak_run_best(s)), "speedup"), used = spent(&s->trials, key);
        if (speedup > 0) ak_json_add_num(e, "speedup", speedup);
        ak_json_add_i64(e, "trials", (int64_t)s->trials.n);
        ak_json_add_i64(e, "barren_rounds", barren(&s->trials, key));
        ak_json_add_num(e, "spent_s", used);
        cJSON_AddBoolToObject(e, "exhausted", exhausted(&s->trials, key));
        cJSON_AddBoolToObject(e, "pending", ak_trials_pending(&s->trials) != NULL);
        const char *edit = edited_at(&s->trials, key);
        cJSON_AddBoolToObject(e, "fresh", !edit);
        if (edit && strcmp(edit, last_edit) > 0) last_edit = edit;
        cJSON_AddItemToArray(specs, e);
    }
    ak_json_add_i64(o, "top", top);
    ak_json_add_num(o, "spent_s", spent_since(r, last_edit)); /* an edit of a range or the strategy has a budget of its own */
    ak_json_add_num(o, "budget_s", budget_s);
    return o;
}

/* ---- results.tsv ---- */

struct row {
    const struct ak_run_spec *spec;
    const struct ak_trial *trial;
};

static int by_time(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    int c = strcmp(ak_json_string(x->trial->facts, "time", ""), ak_json_string(y->trial->facts, "time", ""));
    return c ? c : strcmp(x->trial->hash, y->trial->hash);
}

static void put_number(FILE *f, double v, const char *fmt) {
    if (v == v)
        fprintf(f, fmt, v);
    else
        fputc('-', f);
    fputc('\t', f);
}

/* Free text in a column: no tab, no line break, no control character. */
static void put_text(FILE *f, const char *s) {
    if (!*s) s = "-";
    for (; *s; s++)
        fputc((unsigned char)*s < ' ' || *s == 127 ? ' ' : *s, f);
    fputc('\t', f);
}

static void put_row(FILE *f, size_t n, const struct row *r) {
    const cJSON *facts = r->trial->facts, *vs = opponent(facts);
    const char *verdict = ak_json_string(facts, "verdict", "?");
    fprintf(f, "%zu\t", n);
    put_text(f, r->spec->name);
    put_text(f, ak_json_string(facts, "type", "-"));
    put_number(f, ak_json_number(facts, "gflops") * 1e-3, "%.5g");
    put_number(f, ak_json_number(facts, "latency_us"), "%.2f");
    put_number(f, ak_json_number(facts, "pct_floor"), "%.1f");
    put_text(f, "-");
    put_text(f, strcmp(verdict, "pass") == 0 ? "PASS" : verdict);
    put_text(f, "-");
    put_text(f, r->trial->knobs ? ak_json_string(r->trial->knobs, "why", "-") : "-");
    put_text(f, "c");
    put_text(f, ak_json_string(ak_json_get(facts, "host"), "cpu", ak_host_cpu()));
    put_number(f, ak_json_number(facts, "gbps"), "%.2f");
    put_number(f, ak_json_number(vs, "speedup"), "%.4f");
    put_number(f, ak_json_number(vs, "low"), "%.4f");
    put_number(f, ak_json_number(vs, "high"), "%.4f");
    put_text(f, r->trial->decision ? r->trial->decision : "-");
    put_text(f, r->trial->hash);
    fprintf(f, "%s\n", ak_json_string(facts, "time", "-"));
}

static void add_rows(struct row **rows, size_t *n, size_t *cap, const struct ak_run_spec *spec, const struct ak_trial *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!list[i].facts) continue;
        AK_GROW(*rows, *n, *cap);
        (*rows)[(*n)++] = (struct row){spec, &list[i]};
    }
}

int ak_run_results(const struct ak_run *r, FILE *f, struct ak_err *err) {
    struct row *rows = NULL;
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct ak_trials *t = &r->specs[i].trials;
        add_rows(&rows, &n, &cap, &r->specs[i], t->trials, t->n);
        add_rows(&rows, &n, &cap, &r->specs[i], t->others, t->nothers);
    }
    if (n) qsort(rows, n, sizeof *rows, by_time);
    fputs("experiment\ttag\tkernel_type\tthroughput_tflops\tlatency_us\tpct_peak\tspeedup_vs_pytorch\tcorrectness\tpeak_vram_mb\t"
          "description\tbackend\tdevice\tbandwidth_gbps\tspeedup_vs_opponent\tspeedup_low\tspeedup_high\tdecision\thash\ttime\n", f);
    for (size_t i = 0; i < n; i++)
        put_row(f, i + 1, &rows[i]);
    free(rows);
    return ferror(f) ? ak_fail_errno(err, AK_EXIT_IO, "cannot write the results") : 0;
}

/* ---- status ---- */

double ak_run_amdahl_us(const struct ak_run *r) {
    double us = ak_json_number(r->plan, "model_us");
    for (size_t i = 0; i < r->n; i++) {
        const struct ak_run_spec *s = &r->specs[i];
        const cJSON *vs = opponent(ak_run_best(s));
        if (ak_json_number(vs, "low") > 1)
            us -= ak_json_number(s->planned, "calls") * ak_json_number(s->planned, "time_us") * (1 - 1 / ak_json_number(vs, "speedup"));
    }
    return us;
}

void ak_run_status(const struct ak_run *r, FILE *f) {
    double model = ak_json_number(r->plan, "model_us"), after = ak_run_amdahl_us(r);
    fprintf(f, "%-44s %6s %7s %5s %10s %7s %-22s\n", "spec", "share", "trials", "kept", "us a call", "% floor", "speedup over opponent");
    for (size_t i = 0; i < r->n; i++) {
        const struct ak_run_spec *s = &r->specs[i];
        const cJSON *best = ak_run_best(s), *vs = opponent(best);
        int kept = 0;
        for (size_t k = 0; k < s->trials.n; k++)
            kept += s->trials.trials[k].decision && strcmp(s->trials.trials[k].decision, "keep") == 0;
        fprintf(f, "%-44s %5.1f%% %7zu %5d ", s->name, 100 * ak_json_number(s->planned, "share"), s->trials.n, kept);
        if (best)
            fprintf(f, "%10.1f %6.1f%% %.3fx [%.3f, %.3f]\n", ak_json_number(best, "latency_us"), ak_json_number(best, "pct_floor"), ak_json_number(vs, "speedup"),
                    ak_json_number(vs, "low"), ak_json_number(vs, "high"));
        else
            fprintf(f, "%10s %7s %s\n", "-", "-", s->trials.n ? "no right kernel yet" : "not measured yet");
    }
    if (after > 0) fprintf(f, "by Amdahl's law the model is %.3fx faster: %.3f ms to %.3f ms\n", model / after, model * 1e-3, after * 1e-3);
}
