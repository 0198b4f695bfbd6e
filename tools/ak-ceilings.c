/* ak-ceilings - measure what this machine can do at most
 *
 *     ak-ceilings [-o FILE]
 *     ak-ceilings | jq .read_gbps
 */
#include "ceilings.h"
#include "file.h"
#include "host.h"
#include "json.h"
#include "option.h"

static const char *out_path = "-";
static const struct ak_option options[] = {{'o', "output", "FILE", "write there", AK_OPT_STR, &out_path}, {0}};

int main(int argc, char **argv) {
    ak_host_wait_policy(argv);
    if (ak_options(argc, argv, "", "Measures bandwidth by working set, the multiply-add rate and the cost of a call; takes about two seconds.",
                   options) != argc)
        ak_usage_error("no operands are wanted");
    struct ak_ceilings c;
    struct ak_out out;
    struct ak_err err = {0};
    if (ak_out_open(&out, out_path, &err)) ak_die_err(&err);
    ak_ceilings_measure(&c);
    cJSON *o = ak_ceilings_to_json(&c);
    ak_json_print(out.f, o);
    cJSON_Delete(o);
    if (ak_out_close(&out, &err)) ak_die_err(&err);
    return AK_EXIT_YES;
}
