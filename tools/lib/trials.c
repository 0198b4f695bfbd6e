#include "trials.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "hash.h"
#include "host.h"
#include "json.h"
#include "judge.h"
#include "mem.h"

char *ak_trial_path(const struct ak_trials *t, const char *hash, const char *name) {
    return ak_asprintf("%s/trials/%s/%s", t->dir, hash, name);
}

static bool is_hash(const char *s) { return strspn(s, "0123456789abcdef") == 32 && s[32] == '\0'; }

/* A trial's JSON file, NULL without an error where there is none. */
static cJSON *read_part(const struct ak_trials *t, const char *hash, const char *name, int *bad, struct ak_err *err) {
    char *path = ak_trial_path(t, hash, name);
    cJSON *o = ak_file_exists(path) ? ak_json_read(path, err) : NULL;
    if (!o && ak_file_exists(path)) *bad = ak_fail_in(err, "delete '%s' and run again", path);
    free(path);
    return o;
}

/* round < 0: of another environment */
static int add_trial(struct ak_trials *t, const char *hash, int round, struct ak_err *err) {
    if (!is_hash(hash)) return ak_fail(err, AK_EXIT_INPUT, "'%s' is not the name of a trial", hash);
    AK_GROW(t->trials, t->n, t->cap);
    AK_GROW(t->others, t->nothers, t->cap_others);
    struct ak_trial *trial = round < 0 ? &t->others[t->nothers++] : &t->trials[t->n++];
    int bad = 0;
    *trial = (struct ak_trial){.round = round};
    memcpy(trial->hash, hash, sizeof trial->hash);
    trial->facts = read_part(t, hash, "facts.json", &bad, err);
    if (trial->facts && !bad) bad = ak_json_check_format(trial->facts, "ak-facts", 1, hash, "the search again without it", err);
    trial->knobs = read_part(t, hash, "knobs.json", &bad, err);
    return bad;
}

static double round_wall_s(const char *path) {
    char *name = ak_asprintf("%s.ms", path), *text = ak_file_exists(name) ? ak_file_read(name, 64, NULL, &(struct ak_err){0}) : NULL;
    double s = text ? 1e-3 * strtod(text, NULL) : 0;
    free(text);
    free(name);
    return s;
}

static int read_round(struct ak_trials *t, const char *name, struct ak_err *err) {
    char *path = ak_asprintf("%s/rounds/%s", t->dir, name), *save = NULL;
    char *text = ak_file_read(path, AK_FILE_LIMIT, NULL, err);
    struct ak_round round = {.first = t->n};
    snprintf(round.name, sizeof round.name, "%s", name);
    int rc = text ? 0 : -1;
    char *line = text ? strtok_r(text, "\n", &save) : NULL;
    if (text && (!line || sscanf(line, "ak-round 1 incumbent %32s key %32s env %32s", round.incumbent, round.key, round.env) != 3))
        rc = ak_fail(err, AK_EXIT_INPUT, "not a round: delete it and run again");
    if (rc == 0 && !t->env[0]) memcpy(t->env, round.env, sizeof t->env);
    bool ours = rc == 0 && strcmp(round.env, t->env) == 0;
    while (rc == 0 && (line = strtok_r(NULL, "\n", &save)))
        rc = add_trial(t, line, ours ? (int)t->nrounds : -1, err);
    round.n = t->n - round.first;
    if (ours) {
        round.wall_s = round_wall_s(path);
        AK_GROW(t->rounds, t->nrounds, t->cap_rounds);
        t->rounds[t->nrounds++] = round;
    }
    if (rc) ak_fail_in(err, "'%s'", path);
    free(text);
    free(path);
    return rc;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int numbered(const struct dirent *d) { return strspn(d->d_name, "0123456789") == strlen(d->d_name); }

static char *last_env(const char *dir, const char *name, struct ak_err *err) {
    char *path = ak_path_join(dir, name), *text = ak_file_read(path, AK_FILE_LIMIT, NULL, err), env[33] = "";
    if (text) sscanf(text, "ak-round 1 incumbent %*s key %*s env %32s", env);
    free(text);
    free(path);
    return ak_strdup(env);
}

int ak_trials_read(struct ak_trials *t, const char *spec_dir, const char *env, struct ak_err *err) {
    *t = (struct ak_trials){.dir = ak_strdup(spec_dir), .incumbent = -1};
    char *rounds = ak_path_join(spec_dir, "rounds");
    struct dirent **list = NULL;
    int n = scandir(rounds, &list, numbered, by_name), rc = 0;
    if (n < 0 && errno != ENOENT) rc = ak_fail_errno(err, AK_EXIT_INPUT, "cannot read '%s'", rounds);
    t->nfiles = n > 0 ? (size_t)n : 0;
    char *latest = !env && n > 0 ? last_env(rounds, list[n - 1]->d_name, err) : NULL;
    snprintf(t->env, sizeof t->env, "%s", env ? env : latest ? latest : "");
    free(latest);
    for (int i = 0; i < n; i++) {
        if (rc == 0) rc = read_round(t, list[i]->d_name, err);
        free(list[i]);
    }
    free(list);
    free(rounds);
    if (rc) ak_trials_release(t);
    return rc;
}

static void release(struct ak_trial *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cJSON_Delete(list[i].facts);
        cJSON_Delete(list[i].knobs);
        free(list[i].decision);
        free(list[i].why);
    }
    free(list);
}

void ak_trials_release(struct ak_trials *t) {
    release(t->trials, t->n);
    release(t->others, t->nothers);
    free(t->rounds);
    free(t->dir);
    *t = (struct ak_trials){0};
}

struct ak_trial *ak_trials_find(struct ak_trials *t, const char *hash) {
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->trials[i].hash, hash) == 0) return &t->trials[i];
    return NULL;
}

const struct ak_round *ak_trials_pending(const struct ak_trials *t) {
    const struct ak_round *last = t->nrounds ? &t->rounds[t->nrounds - 1] : NULL;
    for (size_t i = 0; last && i < last->n; i++)
        if (!t->trials[last->first + i].facts) return last;
    return NULL;
}

/* The rounds as decide.lua sees them; facts are lent, not copied. */
static cJSON *for_rule(const struct ak_trials *t) {
    cJSON *o = cJSON_CreateObject(), *rounds = cJSON_AddArrayToObject(o, "rounds");
    for (size_t r = 0; r < t->nrounds; r++) {
        cJSON *round = cJSON_CreateObject(), *trials = cJSON_AddArrayToObject(round, "trials");
        cJSON_AddStringToObject(round, "incumbent", t->rounds[r].incumbent);
        for (size_t i = 0; i < t->rounds[r].n; i++) {
            const struct ak_trial *trial = &t->trials[t->rounds[r].first + i];
            if (trial->facts) cJSON_AddItemReferenceToArray(trials, trial->facts);
        }
        cJSON_AddItemToArray(rounds, round);
    }
    return o;
}

int ak_trials_decide(struct ak_trials *t, struct ak_rules *decide, struct ak_err *err) {
    cJSON *arg = for_rule(t), *made = ak_rules_call(decide, "spec", arg, err);
    cJSON_Delete(arg);
    if (!made) return -1;
    const cJSON *decisions = ak_json_get(made, "decisions"), *best = ak_json_get(made, "incumbent");
    int rc = 0;
    t->incumbent = -1;
    for (size_t i = 0; i < t->n && rc == 0; i++) {
        struct ak_trial *trial = &t->trials[i];
        const char *decision, *why;
        if (!trial->facts) continue;
        const cJSON *d = ak_json_get(decisions, trial->hash);
        if (!d || ak_json_str(d, "decision", &decision, err) || ak_json_str(d, "why", &why, err)) {
            rc = d ? -1 : ak_fail(err, AK_EXIT_INPUT, "decide.lua said nothing of trial %s", trial->hash);
            break;
        }
        free(trial->decision);
        free(trial->why);
        trial->decision = ak_strdup(decision);
        trial->why = ak_strdup(why);
        if (cJSON_IsString(best) && strcmp(best->valuestring, trial->hash) == 0) t->incumbent = (int)i;
    }
    cJSON_Delete(made);
    return rc;
}

int ak_trials_add_round(struct ak_trials *t, const char *incumbent, const char *key, const char *const *hashes, size_t n,
                        char name[static 32], struct ak_err *err) {
    snprintf(name, 32, "%04zu", t->nfiles + 1);
    char *dir = ak_path_join(t->dir, "rounds"), *path = ak_path_join(dir, name);
    struct ak_out out;
    int rc = ak_mkdirs(dir, err) || ak_out_open(&out, path, err) ? -1 : 0;
    if (rc == 0) {
        fprintf(out.f, "ak-round 1 incumbent %s key %s env %s\n", incumbent, key, t->env);
        for (size_t i = 0; i < n; i++)
            fprintf(out.f, "%s\n", hashes[i]);
        rc = ak_out_close(&out, err);
    }
    free(path);
    free(dir);
    return rc;
}

/* Replaces `to` by a copy of `from`, whole or not at all. */
static int copy_file(const char *from, const char *to, struct ak_err *err) {
    struct ak_map m;
    struct ak_out out;
    if (ak_map_open(&m, from, err)) return -1;
    int rc = ak_out_open(&out, to, err);
    if (rc == 0) {
        fwrite(m.data, 1, m.size, out.f);
        rc = ak_out_close(&out, err);
    }
    ak_map_close(&m);
    return rc;
}

static int write_text(const char *path, const char *text, struct ak_err *err) {
    struct ak_out out;
    if (ak_out_open(&out, path, err)) return -1;
    fprintf(out.f, "%s\n", text);
    return ak_out_close(&out, err);
}

void ak_text_hash(const char *text, char hex[static 33]) {
    struct ak_hash h = ak_hash_start();
    ak_hash_add_str(&h, text);
    ak_hash_hex(&h, hex);
}

void ak_trial_hash(const char *source, const char *env, char hex[static 33]) {
    char *stripped = ak_source_strip(source);
    struct ak_hash h = ak_hash_start();
    ak_hash_add_str(&h, stripped);
    ak_hash_add_str(&h, env);
    ak_hash_hex(&h, hex);
    free(stripped);
}

char *ak_trial_env(const char *spec_dir, const char *build, struct ak_err *err) {
    char *path = ak_path_join(spec_dir, "spec.json"), *spec = ak_file_read(path, AK_FILE_LIMIT, NULL, err), *env = NULL, hash[33];
    char *flags = spec ? ak_file_read(build, AK_FILE_LIMIT, NULL, err) : NULL;
    if (flags) {
        ak_text_hash(spec, hash);
        env = ak_asprintf("%sdevice %s, %ld cores\nspec %s\njudge %d\n", flags, ak_host_cpu(), sysconf(_SC_NPROCESSORS_ONLN), hash, AK_JUDGE_VERSION);
    }
    free(flags);
    free(spec);
    free(path);
    return env;
}

void ak_search_key(const char *strategy, const struct ak_knobs *knobs, char hex[static 33]) {
    cJSON *o = ak_knobs_to_json(knobs), *k;
    cJSON_ArrayForEach(k, cJSON_GetObjectItemCaseSensitive(o, "knobs")) cJSON_DeleteItemFromObjectCaseSensitive(k, "value");
    char *ranges = cJSON_PrintUnformatted(o);
    struct ak_hash h = ak_hash_start();
    ak_hash_add_str(&h, strategy);
    ak_hash_add_str(&h, ranges);
    ak_hash_hex(&h, hex);
    cJSON_free(ranges);
    cJSON_Delete(o);
}

/* best.so before best.hash: a hash says that the library beside it is that one. */
static int sync_best(const struct ak_trials *t, const char *hash, struct ak_err *err) {
    char *so = ak_trial_path(t, hash, "kernel.so"), *best = ak_path_join(t->dir, "best.so"), *name = ak_path_join(t->dir, "best.hash");
    char *had = ak_file_exists(name) ? ak_file_read(name, 64, NULL, err) : NULL;
    int rc = 0;
    if (!had || strncmp(had, hash, 32) || !ak_file_exists(best)) {
        unlink(name);
        rc = !ak_file_exists(so) ? 1 : copy_file(so, best, err) || write_text(name, hash, err) ? -1 : 0;
    }
    free(had);
    free(so);
    free(best);
    free(name);
    return rc;
}

static void drop_losers(const struct ak_trials *t) {
    for (size_t i = 0; i < t->n; i++) {
        if ((int)i == t->incumbent || !t->trials[i].facts) continue;
        char *so = ak_trial_path(t, t->trials[i].hash, "kernel.so");
        unlink(so);
        free(so);
    }
}

static int replace(const char *path, const char *text, struct ak_err *err) {
    struct ak_out out;
    if (ak_out_open(&out, path, err)) return -1;
    fputs(text, out.f);
    return ak_out_close(&out, err);
}

/* `text` with the values that `values_of` has, where both are one kernel with other values; else NULL. */
static char *respell(const char *text, const char *values_of) {
    struct ak_knobs to, from;
    struct ak_err ignored;
    char *made = NULL;
    if (ak_knobs_parse(&to, text, "", &ignored)) return NULL;
    if (ak_knobs_parse(&from, values_of, "", &ignored) == 0) {
        char *a = ak_source_base(&to, text), *b = ak_source_base(&from, values_of);
        cJSON *values = ak_knobs_values(&from);
        if (strcmp(a, b) == 0) made = ak_knobs_apply(&to, text, values, &ignored);
        cJSON_Delete(values);
        free(a);
        free(b);
        ak_knobs_release(&from);
    }
    ak_knobs_release(&to);
    return made;
}

char *ak_starter_read(const char *type, struct ak_err *err) {
    char *path = ak_asprintf("%s/kernels/c/%s.c", ak_home(), type), *text = ak_file_read(path, AK_FILE_LIMIT, NULL, err);
    free(path);
    return text;
}

int ak_trials_take_ranges(const struct ak_trials *t, const char *starter, struct ak_err *err) {
    char *seen = ak_path_join(t->dir, "starter"), *path = ak_path_join(t->dir, "kernel.c"), hash[33];
    char *had = ak_file_exists(seen) ? ak_file_read(seen, 64, NULL, err) : NULL;
    ak_text_hash(starter, hash);
    bool same = had && strncmp(had, hash, 32) == 0;
    char *kernel = had && !same && ak_file_exists(path) ? ak_file_read(path, AK_FILE_LIMIT, NULL, err) : NULL;
    char *made = kernel ? respell(starter, kernel) : NULL;
    int rc = made ? replace(path, made, err) : 0;
    if (rc == 0 && !same) rc = write_text(seen, hash, err);
    free(made);
    free(kernel);
    free(had);
    free(path);
    free(seen);
    return rc;
}

static int sync_kernel(const struct ak_trials *t, const struct ak_trial *best, struct ak_err *err) {
    char *from = ak_trial_path(t, best->hash, "kernel.c"), *to = ak_path_join(t->dir, "kernel.c"), hash[33] = "";
    char *incumbent = ak_file_read(from, AK_FILE_LIMIT, NULL, err), *kernel = ak_file_exists(to) ? ak_file_read(to, AK_FILE_LIMIT, NULL, err) : ak_strdup("");
    int rc = incumbent && kernel ? 0 : -1;
    if (rc == 0) ak_trial_hash(kernel, t->env, hash);
    const struct ak_trial *known = ak_trials_find((struct ak_trials *)t, hash);
    if (rc == 0 && (!*kernel || (known && known->facts && known != best))) {
        char *text = respell(kernel, incumbent);
        rc = replace(to, text ? text : incumbent, err);
        free(text);
    }
    free(incumbent);
    free(kernel);
    free(from);
    free(to);
    return rc;
}

int ak_trials_sync(const struct ak_trials *t, struct ak_err *err) {
    if (t->incumbent < 0) return 0;
    const struct ak_trial *best = &t->trials[t->incumbent];
    int rc = sync_best(t, best->hash, err);
    if (rc == 0) rc = sync_kernel(t, best, err);
    if (rc == 0) drop_losers(t);
    return rc;
}
