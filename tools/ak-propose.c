/* ak-propose - the next round of candidates for a spec
 *
 *     ak-propose --env FILE SPEC-FOLDER
 *     while ROUND=$(ak-propose --env build/kernel.env DIR); do make -C DIR -f search.mk judge; done
 *
 * Prints "ROUND HASH": the round's file in rounds/, or "-", and the trial that kernel.c is, or would
 * be. Exit 0: that round waits to be judged (perhaps an earlier run left it half done). Exit 1: nothing
 * is left to try. Before any other comes the starter; a kernel.c that somebody edited is next.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "option.h"
#include "trials.h"

static const char *env_path, *strategy_path, *decide_path, *note;
static int64_t batch = 12;
static bool hand_only;
static const struct ak_option options[] = {
    {'e', "env", "FILE", "flags and compiler that kernels are built with, part of a trial's name", AK_OPT_STR, &env_path},
    {0, "strategy", "FILE", "the six tiers", AK_OPT_STR, &strategy_path},
    {0, "decide", "FILE", "keep or revert", AK_OPT_STR, &decide_path},
    {'n', "batch", "N", "candidates in a round", AK_OPT_INT, &batch},
    {0, "hand", NULL, "only the kernel.c that was edited, nothing of the strategy's", AK_OPT_FLAG, &hand_only},
    {0, "note", "TEXT", "what the edit is, for the log", AK_OPT_STR, &note},
    {0},
};

struct propose {
    const char *dir;
    struct ak_trials trials;
    char *source;  /* kernel.c, or the starter where that comes first */
    char edited[33]; /* the trial that kernel.c is */
    struct ak_knobs knobs;
    char base[33]; /* of the source */
    char key[33];  /* what the budget is counted against: the strategy and the ranges */
    char *env;     /* all that a trial's facts depend on but its source */
    const char *hashes[256];
    size_t n;
    struct ak_err err;
};

static char *read_text(struct propose *p, const char *path, size_t *len) {
    char *text = ak_file_read(path, AK_FILE_LIMIT, len, &p->err);
    if (!text) ak_die_err(&p->err);
    return text;
}

static void write_file(struct propose *p, const char *path, const char *text) {
    struct ak_out out;
    if (ak_out_open(&out, path, &p->err)) ak_die_err(&p->err);
    fputs(text, out.f);
    if (ak_out_close(&out, &p->err)) ak_die_err(&p->err);
}

/* Makes the folder of one trial and puts it on the round; false if it is known or on it already. */
static bool add_trial(struct propose *p, const char *source, cJSON *knobs) {
    char hash[33];
    ak_trial_hash(source, p->trials.env, hash);
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->hashes[i], hash) == 0) return false;
    if (ak_trials_find(&p->trials, hash) || p->n == sizeof p->hashes / sizeof *p->hashes) return false;
    char *dir = ak_trial_path(&p->trials, hash, ""), *kernel = ak_path_join(dir, "kernel.c"), *env = ak_path_join(dir, "env"),
         *file = ak_path_join(dir, "knobs.json"), *text = cJSON_PrintUnformatted(knobs);
    if (ak_mkdirs(dir, &p->err)) ak_die_err(&p->err);
    write_file(p, kernel, source);
    write_file(p, env, p->env);
    write_file(p, file, text);
    p->hashes[p->n++] = ak_strdup(hash);
    cJSON_free(text);
    free(file);
    free(env);
    free(kernel);
    free(dir);
    return true;
}

static cJSON *describe(const struct propose *p, const char *by, const char *why, cJSON *values) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "base", p->base);
    cJSON_AddStringToObject(o, "by", by);
    cJSON_AddStringToObject(o, "why", why);
    cJSON_AddItemToObject(o, "values", values);
    return o;
}

/* The source itself, where it is neither the incumbent nor anything tried before. */
static void propose_file(struct propose *p) {
    bool first = p->trials.nrounds == 0;
    cJSON *knobs = describe(p, first && !note ? "start" : "hand", note ? note : first ? "the starter" : "edited by hand", ak_knobs_values(&p->knobs));
    add_trial(p, p->source, knobs);
    cJSON_Delete(knobs);
}

/* What was tried of this very kernel, knobs aside; *mutated counts the rounds of the last phase. */
static cJSON *history(const struct propose *p, int *mutated) {
    cJSON *list = cJSON_CreateArray();
    int last = -1;
    for (size_t i = 0; i < p->trials.n; i++) {
        const struct ak_trial *t = &p->trials.trials[i];
        const cJSON *base = t->knobs ? ak_json_get(t->knobs, "base") : NULL, *phase = t->knobs ? ak_json_get(t->knobs, "phase") : NULL;
        if (!t->facts || !cJSON_IsString(base) || strcmp(base->valuestring, p->base)) continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToObject(o, "values", cJSON_Duplicate(ak_json_get(t->knobs, "values"), true));
        cJSON_AddItemToObject(o, "verdict", cJSON_Duplicate(ak_json_get(t->facts, "verdict"), true));
        const cJSON *vs = ak_json_get(t->facts, "vs_opponent"), *speedup = vs ? ak_json_get(vs, "speedup") : NULL;
        if (speedup) cJSON_AddItemToObject(o, "speedup", cJSON_Duplicate(speedup, true));
        cJSON_AddItemToArray(list, o);
        if (cJSON_IsString(phase) && strcmp(phase->valuestring, "mutations") == 0 && t->round != last) {
            last = t->round;
            ++*mutated;
        }
    }
    return list;
}

/* What the roofline says of the incumbent: "memory", "compute" or "call"; memory before anything is known. */
static const char *bound(const struct propose *p) {
    const cJSON *b = p->trials.incumbent >= 0 ? ak_json_get(p->trials.trials[p->trials.incumbent].facts, "bound") : NULL;
    return cJSON_IsString(b) ? b->valuestring : "memory";
}

static cJSON *ask(struct propose *p, int64_t want) {
    struct ak_rules *rules = ak_rules_open(strategy_path, &p->err);
    if (!rules) ak_die_err(&p->err);
    int mutated = 0;
    cJSON *state = ak_knobs_to_json(&p->knobs);
    cJSON_AddItemToObject(state, "values", ak_knobs_values(&p->knobs));
    cJSON_AddItemToObject(state, "history", history(p, &mutated));
    cJSON_AddStringToObject(state, "bound", bound(p));
    ak_json_add_i64(state, "batch", want);
    ak_json_add_i64(state, "mutated_rounds", mutated);
    cJSON *made = ak_rules_call(rules, "propose", state, &p->err);
    if (!made) ak_die_err(&p->err);
    cJSON_Delete(state);
    ak_rules_close(rules);
    return made;
}

static void propose_strategy(struct propose *p) {
    cJSON *made = ask(p, batch);
    const cJSON *list, *c;
    if (ak_json_array(made, "candidates", &list, &p->err)) ak_die(AK_EXIT_INPUT, "'%s': %s", strategy_path, p->err.msg);
    cJSON_ArrayForEach(c, list) {
        const cJSON *values;
        const char *why;
        if (ak_json_object(c, "values", &values, &p->err) || ak_json_str(c, "why", &why, &p->err)) ak_die(AK_EXIT_INPUT, "'%s': %s", strategy_path, p->err.msg);
        char *source = ak_knobs_apply(&p->knobs, p->source, values, &p->err);
        if (!source) ak_die(AK_EXIT_INPUT, "'%s': %s", strategy_path, p->err.msg);
        cJSON *knobs = describe(p, "search", why, cJSON_Duplicate(values, true));
        const cJSON *phase = ak_json_get(made, "phase");
        if (phase) cJSON_AddItemToObject(knobs, "phase", cJSON_Duplicate(phase, true));
        add_trial(p, source, knobs);
        cJSON_Delete(knobs);
        free(source);
    }
    cJSON_Delete(made);
}

/* Without an incumbent the starter comes before a kernel.c that somebody edited: what is to be had
 * for nothing is measured first, and a wrong edit leaves a kernel to go back to. */
static void begin_with_starter(struct propose *p) {
    char *path = ak_path_join(p->dir, "spec.json"), hash[33];
    cJSON *spec = ak_json_read(path, &p->err);
    const char *type;
    if (!spec || ak_json_str(spec, "type", &type, &p->err)) ak_die_err(&p->err);
    char *starter = ak_starter_read(type, &p->err);
    if (!starter) ak_die_err(&p->err);
    ak_trial_hash(starter, p->trials.env, hash);
    if (!ak_trials_find(&p->trials, hash)) {
        free(p->source);
        ak_knobs_release(&p->knobs);
        p->source = starter;
        if (ak_knobs_parse(&p->knobs, starter, type, &p->err)) ak_die_err(&p->err);
    }
    cJSON_Delete(spec);
    free(path);
}

static void read_trials(struct propose *p) {
    char env[33];
    p->env = ak_trial_env(p->dir, env_path, &p->err);
    if (!p->env) ak_die_err(&p->err);
    ak_text_hash(p->env, env);
    if (ak_trials_read(&p->trials, p->dir, env, &p->err)) ak_die_err(&p->err);
    struct ak_rules *decide = ak_rules_open(decide_path, &p->err);
    if (!decide || ak_trials_decide(&p->trials, decide, &p->err)) ak_die_err(&p->err);
    ak_rules_close(decide);
}

static void read_kernel(struct propose *p) {
    char *kernel = ak_path_join(p->dir, "kernel.c"), *strategy = read_text(p, strategy_path, NULL);
    p->source = read_text(p, kernel, NULL);
    if (ak_knobs_parse(&p->knobs, p->source, kernel, &p->err)) ak_die_err(&p->err);
    ak_trial_hash(p->source, p->trials.env, p->edited);
    ak_search_key(strategy, &p->knobs, p->key);
    if (p->trials.incumbent < 0) begin_with_starter(p);
    char *base = ak_source_base(&p->knobs, p->source);
    ak_text_hash(base, p->base);
    free(base);
    free(strategy);
    free(kernel);
}

/* So that `ak-rank next` need not ask the strategy again: holds while nothing of this changes. */
static void mark_exhausted(struct propose *p) {
    char *path = ak_path_join(p->dir, "exhausted"), *text = ak_asprintf("%s %zu %s\n", p->key, p->trials.n, p->trials.env);
    write_file(p, path, text);
    free(text);
    free(path);
}

/* The name of the round to judge, or NULL. */
static const char *next_round(struct propose *p) {
    static char name[32];
    const struct ak_round *pending = ak_trials_pending(&p->trials);
    if (pending) return pending->name;
    propose_file(p);
    if (p->n == 0 && !hand_only && p->trials.incumbent >= 0) propose_strategy(p);
    if (p->n == 0) {
        if (!hand_only) mark_exhausted(p);
        return NULL;
    }
    const char *incumbent = p->trials.incumbent >= 0 ? p->trials.trials[p->trials.incumbent].hash : "-";
    if (ak_trials_add_round(&p->trials, incumbent, p->key, p->hashes, p->n, name, &p->err)) ak_die_err(&p->err);
    return name;
}

int main(int argc, char **argv) {
    strategy_path = ak_path_join(ak_home(), "rules/strategy.lua");
    decide_path = ak_path_join(ak_home(), "rules/decide.lua");
    int first = ak_options(argc, argv, "SPEC-FOLDER", "Writes the next round of candidates for a spec and prints ROUND HASH; exits with 1 when nothing is left.", options);
    if (argc - first != 1) ak_usage_error("one spec's folder is wanted");
    if (!env_path) ak_usage_error("--env is wanted: make writes it as BUILD/kernel.env");
    if (batch < 1 || batch > 200) ak_usage_error("--batch wants 1 to 200");

    struct propose p = {.dir = argv[first]};
    read_trials(&p);
    read_kernel(&p);
    const char *round = next_round(&p);
    printf("%s %s\n", round ? round : "-", p.edited);
    if (fflush(stdout)) ak_die_errno(AK_EXIT_IO, "cannot write standard output");
    return round ? AK_EXIT_YES : AK_EXIT_NO;
}
