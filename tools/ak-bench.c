/* ak-bench - how fast is a kernel, against an incumbent and an opponent, and how near the floor?
 *
 *     ak-bench [--incumbent X.so] [--opponent Y.so] [--ceilings FILE] [-o FILE] SPECDIR KERNEL.so
 *     ak-bench specs/softmax-r64-c512-f32 build/lib/c/softmax.so
 *
 * Its answers are looked at while it is timed, but at one shape: ak-check comes first.
 */
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "host.h"
#include "json.h"
#include "judge.h"
#include "mem.h"
#include "option.h"
#include "rand.h"
#include "vendor.h"

static const char *output, *incumbent, *opponent, *ceilings_path;
static int64_t seed = -1;
static double timeout = 3, sample = 5, budget = 200;

static const struct ak_option options[] = {
    {0, "incumbent", "FILE", "the kernel to compare it with", AK_OPT_STR, &incumbent},
    {0, "opponent", "FILE", "what to beat (default: the vendor library of the spec's type)", AK_OPT_STR, &opponent},
    {0, "ceilings", "FILE", "what the machine can do at most, from ak-ceilings", AK_OPT_STR, &ceilings_path},
    {0, "seed", "N", "of all inputs, to repeat a run; a fresh one if negative", AK_OPT_INT, &seed},
    {0, "timeout", "SECONDS", "a call that takes longer, and longer than its size explains, hangs", AK_OPT_NUM, &timeout},
    {0, "sample", "US", "the shortest sample", AK_OPT_NUM, &sample},
    {0, "budget", "MS", "time for timing, more or less", AK_OPT_NUM, &budget},
    {'o', "output", "FILE", "write what was seen as JSON there, or - for standard output", AK_OPT_STR, &output},
    {0},
};

int main(int argc, char **argv) {
    struct ak_err err = {0};
    ak_worker_main(argc, argv);
    ak_host_wait_policy(argv);
    int first = ak_options(argc, argv, "SPECDIR KERNEL.so", "How fast is a kernel, against an incumbent and an opponent?", options);
    if (argc - first != 2) ak_usage_error("it wants a spec (or its folder) and a kernel");
    struct ak_spec spec;
    struct ak_ceilings ceilings;
    if (ak_spec_read(&spec, argv[first], &err)) ak_die_err(&err);
    if (!ak_file_exists(argv[first + 1])) ak_die(AK_EXIT_INPUT, "cannot read '%s'", argv[first + 1]);
    if (ceilings_path && ak_ceilings_read(&ceilings, ceilings_path, &err)) ak_die_err(&err);
    const char *by = opponent;
    struct ak_vendor *vendor = opponent ? NULL : ak_vendor_open(ak_vendor_dir(), &err);
    if (!opponent && !vendor) ak_die_err(&err);
    if (vendor) {
        opponent = ak_vendor_path(vendor, spec.type, 0);
        by = ak_asprintf("vendor/%s", spec.type);
    }
    struct ak_trial_options o = {
        .judge = {.candidate = argv[first + 1], .incumbent = incumbent, .opponent = opponent, .timeout_s = timeout, .sample_us = sample, .budget_ms = budget},
        .hash = "-",
        .incumbent_hash = incumbent,
        .opponent_name = by,
        .ceilings = ceilings_path ? &ceilings : NULL,
        .bench = true,
    };
    o.judge.seed = seed >= 0 ? (uint64_t)seed : ak_rand_secret() >> 11;
    cJSON *facts = ak_judge_trial(&spec, &o, &err);
    if (!facts || ak_facts_write(facts, output, &err)) ak_die_err(&err);
    bool pass = ak_facts_pass(facts);
    cJSON_Delete(facts);
    ak_vendor_close(vendor);
    ak_spec_release(&spec);
    return pass ? AK_EXIT_YES : AK_EXIT_NO;
}
