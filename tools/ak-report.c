/* ak-report - the report of a run, as one page
 *
 *     ak-report [-o FILE] RUN
 *     ak-report -o report.html work/llama-mini/cpu-f32-1x128
 *
 * progress.png is drawn into the run's folder by gnuplot and embedded; without gnuplot the page
 * does without.
 */
#include <stdlib.h>

#include "file.h"
#include "json.h"
#include "option.h"
#include "report.h"

static const char *out_path = "-", *decide_path;
static const struct ak_option options[] = {
    {'o', "output", "FILE", "write the page there", AK_OPT_STR, &out_path},
    {0, "decide", "FILE", "the rule that keeps or reverts", AK_OPT_STR, &decide_path},
    {0},
};

int main(int argc, char **argv) {
    decide_path = ak_path_join(ak_home(), "rules/decide.lua");
    int first = ak_options(argc, argv, "RUN", "Writes the report of a run as one page, and progress.png into the run's folder.", options);
    if (argc - first != 1) ak_usage_error("one run's folder is wanted");
    struct ak_err err = {0};
    struct ak_run run;
    struct ak_out out;
    struct ak_rules *decide = ak_rules_open(decide_path, &err);
    if (!decide || ak_run_read(&run, argv[first], NULL, decide, &err)) ak_die_err(&err);
    char *verify_path = ak_path_join(argv[first], "verify.json"), *png = ak_path_join(argv[first], "progress.png");
    cJSON *verify = ak_json_read(verify_path, &err);
    if (!verify || ak_json_check_format(verify, "ak-verify", 1, verify_path, "ak-verify", &err)) ak_die_err(&err);
    int plotted = ak_report_plot(&run, png, &err);
    if (plotted < 0) ak_die_err(&err);
    if (plotted > 0 && !ak_option_quiet) ak_warn("no progress is drawn: gnuplot is not on this machine, or nothing was tried");
    if (ak_out_open(&out, out_path, &err)) ak_die_err(&err);
    if (ak_report_html(&run, verify, plotted == 0 ? png : NULL, out.f, &err)) {
        ak_out_abandon(&out);
        ak_die_err(&err);
    }
    if (ak_out_close(&out, &err)) ak_die_err(&err);
    cJSON_Delete(verify);
    ak_rules_close(decide);
    ak_run_release(&run);
    free(verify_path);
    free(png);
    return AK_EXIT_YES;
}
