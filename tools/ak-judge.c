/* ak-judge - a whole trial of a kernel: right or wrong, how fast, in one record
 *
 *     ak-judge [--lock FILE] [--ceilings FILE] [--cc-log FILE] [-o facts.json] SPECDIR KERNEL.so
 *     ak-judge -o facts.json . trials/HASH/kernel.so && jq .verdict facts.json
 *
 * A bad kernel is a verdict in the record, and exit status 0; with --verdict it is 1. The incumbent
 * is SPECDIR/best.so where there is one. A record that is there once the lock is ours was made by
 * another run meanwhile, and stays.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "file.h"
#include "host.h"
#include "json.h"
#include "judge.h"
#include "mem.h"
#include "option.h"
#include "rand.h"
#include "vendor.h"

static const char *output = "-", *lock, *ceilings_path, *cc_log, *incumbent, *opponent;
static int64_t seed = -1;
static double timeout = 3, sample = 5, budget = 60;
static bool verdict;

static const struct ak_option options[] = {
    {'o', "output", "FILE", "write the facts there", AK_OPT_STR, &output},
    {'l', "lock", "FILE", "hold this lock while measuring", AK_OPT_STR, &lock},
    {0, "ceilings", "FILE", "what the machine can do at most, from ak-ceilings", AK_OPT_STR, &ceilings_path},
    {0, "cc-log", "FILE", "what the compiler said: without KERNEL.so that is the verdict", AK_OPT_STR, &cc_log},
    {0, "incumbent", "FILE", "the best kernel so far (default: SPECDIR/best.so, if it is there)", AK_OPT_STR, &incumbent},
    {0, "opponent", "FILE", "what to beat (default: the vendor library of the spec's type)", AK_OPT_STR, &opponent},
    {0, "seed", "N", "of all inputs, to repeat a trial; a fresh one if negative", AK_OPT_INT, &seed},
    {0, "timeout", "SECONDS", "a call that takes longer, and longer than its size explains, hangs", AK_OPT_NUM, &timeout},
    {0, "sample", "US", "the shortest sample", AK_OPT_NUM, &sample},
    {0, "budget", "MS", "time for timing, more or less", AK_OPT_NUM, &budget},
    {0, "verdict", NULL, "exit with 1 unless the kernel passes", AK_OPT_FLAG, &verdict},
    {0},
};

static struct ak_err err;

/* The folder of a trial is its name. */
static char *folder_name(const char *path) {
    char *dir = ak_path_dir(path), *slash = strrchr(dir, '/'), *name = ak_strdup(slash ? slash + 1 : dir);
    free(dir);
    return name;
}

/* The first line of a file, or "-". */
static char *first_line(const char *dir, const char *name) {
    char *path = ak_path_join(dir, name), *text = NULL;
    if (ak_file_exists(path) && !(text = ak_file_read(path, 4096, NULL, &err))) ak_die_err(&err);
    free(path);
    if (!text) return ak_strdup("-");
    text[strcspn(text, " \n")] = '\0';
    return text;
}

int main(int argc, char **argv) {
    ak_worker_main(argc, argv);
    ak_host_wait_policy(argv);
    int first = ak_options(argc, argv, "SPECDIR KERNEL.so", "A whole trial of a kernel: right or wrong, how fast, in one record.", options);
    if (argc - first != 2) ak_usage_error("it wants a spec's folder and a kernel");
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* killed with the make that asked */
    const char *dir = argv[first], *kernel = argv[first + 1];

    struct ak_spec spec;
    struct ak_ceilings ceilings;
    if (ak_spec_read(&spec, dir, &err)) ak_die_err(&err);
    if (ceilings_path && ak_ceilings_read(&ceilings, ceilings_path, &err)) ak_die_err(&err);
    if (!cc_log && !ak_file_exists(kernel)) ak_die(AK_EXIT_INPUT, "cannot read '%s'", kernel);

    char *best = ak_path_join(dir, "best.so"), *by = ak_asprintf("vendor/%s", spec.type);
    if (!incumbent && ak_file_exists(best)) incumbent = best;
    struct ak_vendor *vendor = opponent ? NULL : ak_vendor_open(ak_vendor_dir(), &err);
    if (!opponent && !vendor) ak_die_err(&err);
    if (vendor) opponent = ak_vendor_path(vendor, spec.type, 0);
    else by = ak_strdup(opponent);

    if (lock && ak_lock(lock, true, &err) < 0) ak_die_err(&err);
    if (strcmp(output, "-") != 0 && ak_file_exists(output)) return AK_EXIT_YES;
    struct ak_trial_options o = {
        .judge = {.candidate = kernel, .incumbent = incumbent, .opponent = opponent, .timeout_s = timeout, .sample_us = sample, .budget_ms = budget},
        .hash = folder_name(kernel),
        .incumbent_hash = first_line(dir, "best.hash"),
        .opponent_name = by,
        .cc_log = cc_log,
        .ceilings = ceilings_path ? &ceilings : NULL,
        .check = true,
        .bench = true,
    };
    o.judge.seed = seed >= 0 ? (uint64_t)seed : ak_rand_secret() >> 11; /* JSON numbers hold 53 bits */
    cJSON *facts = ak_judge_trial(&spec, &o, &err);
    if (!facts || ak_facts_write(facts, output, &err)) ak_die_err(&err);
    if (ak_option_verbose) ak_facts_print(stderr, facts);
    else if (!ak_option_quiet) ak_facts_print_line(stderr, facts);
    bool pass = ak_facts_pass(facts);
    cJSON_Delete(facts);
    ak_vendor_close(vendor);
    ak_spec_release(&spec);
    return verdict && !pass ? AK_EXIT_NO : AK_EXIT_YES;
}
