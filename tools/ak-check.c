/* ak-check - is a kernel right? Five stages of cases against truth, in a process of its own
 *
 *     ak-check [--stage NAME] [--seed N] [-o FILE] SPECDIR KERNEL.so
 *     ak-check specs/softmax-r64-c512-f32 build/lib/c/softmax.so
 *
 * Seeds are fresh every time and printed, so that a failure can be repeated.
 */
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "host.h"
#include "json.h"
#include "judge.h"
#include "option.h"
#include "rand.h"

static const char *output, *stage;
static int64_t seed = -1;
static double timeout = 3;

static const struct ak_option options[] = {
    {'s', "stage", "NAME", "only that: smoke, shapes, stability, determinism or edge", AK_OPT_STR, &stage},
    {0, "seed", "N", "of all inputs, to repeat a check; a fresh one if negative", AK_OPT_INT, &seed},
    {0, "timeout", "SECONDS", "a call that takes longer, and longer than its size explains, hangs", AK_OPT_NUM, &timeout},
    {'o', "output", "FILE", "write what was seen as JSON there, or - for standard output", AK_OPT_STR, &output},
    {0},
};

int main(int argc, char **argv) {
    struct ak_err err = {0};
    ak_worker_main(argc, argv);
    ak_host_wait_policy(argv);
    int first = ak_options(argc, argv, "SPECDIR KERNEL.so", "Is a kernel right? Five stages of cases against truth.", options);
    if (argc - first != 2) ak_usage_error("it wants a spec (or its folder) and a kernel");
    if (stage && !ak_stage_known(stage)) ak_usage_error("there is no stage '%s'", stage);
    struct ak_spec spec;
    if (ak_spec_read(&spec, argv[first], &err)) ak_die_err(&err);
    if (!ak_file_exists(argv[first + 1])) ak_die(AK_EXIT_INPUT, "cannot read '%s'", argv[first + 1]);
    struct ak_trial_options o = {
        .judge = {.candidate = argv[first + 1], .timeout_s = timeout, .sample_us = 40, .budget_ms = 50},
        .hash = "-",
        .check = true,
        .stage = stage,
    };
    o.judge.seed = seed >= 0 ? (uint64_t)seed : ak_rand_secret() >> 11;
    cJSON *facts = ak_judge_trial(&spec, &o, &err);
    if (!facts || ak_facts_write(facts, output, &err)) ak_die_err(&err);
    bool pass = ak_facts_pass(facts);
    cJSON_Delete(facts);
    ak_spec_release(&spec);
    return pass ? AK_EXIT_YES : AK_EXIT_NO;
}
