/* ak-profile - time every node of a graph and every group that could hold some
 *
 *     ak-profile [-o FILE] [-c CEILINGS] [GRAPH]
 *     ak-import gpt2-mini | ak-profile - | ak-rank plan - | head
 *
 * Each distinct call is timed once, alone, on random data.
 */
#include <stdlib.h>
#include <unistd.h>

#include "ceilings.h"
#include "file.h"
#include "host.h"
#include "mem.h"
#include "option.h"
#include "profile.h"
#include "vendor.h"

static const char *out_path = "-", *ceilings_path, *classify_path, *kernels_path;
static int64_t runs = 9;
static double budget_s = 2;
static const struct ak_option options[] = {
    {'o', "output", "FILE", "write the profile there", AK_OPT_STR, &out_path},
    {'c', "ceilings", "FILE", "what ak-ceilings measured; without it they are measured now", AK_OPT_STR, &ceilings_path},
    {0, "classify", "FILE", "the rule that proposes groups", AK_OPT_STR, &classify_path},
    {0, "kernels", "FILE", "the kernel types", AK_OPT_STR, &kernels_path},
    {'n', "runs", "N", "samples of each distinct call", AK_OPT_INT, &runs},
    {'b', "budget", "SECONDS", "at most that long for one distinct call, but three samples", AK_OPT_NUM, &budget_s},
    {0},
};

/* In place on a terminal; elsewhere a line every few seconds. */
static void progress(size_t done, size_t of, const char *what) {
    static double start, last;
    double now = ak_now_us() * 1e-6;
    if (!start) start = last = now;
    if (!isatty(STDERR_FILENO) && now - last < 5) return;
    last = now;
    fprintf(stderr, isatty(STDERR_FILENO) ? "\rprofile: %zu of %zu, %.0f s left, %-40.40s" : "profile: %zu of %zu, %.0f s left, %.40s\n", done, of,
            done ? (now - start) * (double)(of - done) / (double)done : 0, what);
}

int main(int argc, char **argv) {
    classify_path = ak_path_join(ak_home(), "rules/classify.lua");
    kernels_path = ak_path_join(ak_home(), "rules/kernels.lua");
    ak_host_wait_policy(argv);
    int first = ak_options(argc, argv, "[GRAPH]", "Times every node of a graph and every group that one kernel could replace.", options);
    if (argc - first > 1) ak_usage_error("one graph at a time");
    if (runs < 3) ak_usage_error("--runs wants 3 or more");
    const char *path = first < argc ? argv[first] : "-";

    struct ak_err err = {0};
    struct ak_graph g;
    struct ak_ceilings ceilings;
    struct ak_out out;
    ak_graph_init(&g);
    if (ak_graph_read(&g, path, &err)) ak_die_err(&err);
    if (!ceilings_path)
        ak_ceilings_measure(&ceilings);
    else if (ak_ceilings_read(&ceilings, ceilings_path, &err))
        ak_die_err(&err);
    struct ak_profile_options opt = {
        .graph_path = path,
        .vendor_dir = ak_vendor_dir(),
        .classify = ak_rules_open(classify_path, &err),
        .ceilings = &ceilings,
        .runs = (int)runs,
        .budget_us = budget_s * 1e6,
        .progress = ak_option_quiet ? NULL : progress,
    };
    if (!opt.classify || !(opt.kernels = ak_rules_open(kernels_path, &err))) ak_die_err(&err);
    if (ak_out_open(&out, out_path, &err)) ak_die_err(&err);
    if (ak_profile_write(&g, &opt, out.f, &err)) {
        ak_out_abandon(&out);
        ak_die_err(&err);
    }
    if (!ak_option_quiet && isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    if (ak_out_close(&out, &err)) ak_die_err(&err);
    ak_rules_close(opt.classify);
    ak_rules_close(opt.kernels);
    ak_graph_release(&g);
    return AK_EXIT_YES;
}
