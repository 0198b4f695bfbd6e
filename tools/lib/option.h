/* Command lines, spelt alike in every tool: -h --help, --version, -q, -v, -o FILE, and the tool's
 * own options from a table.
 *
 *     static const char *out = "-";
 *     static double budget = 60;
 *     static const struct ak_option options[] = {
 *         {'o', "output", "FILE", "write the profile there", AK_OPT_STR, &out},
 *         {'b', "budget", "SECONDS", "stop after that long", AK_OPT_NUM, &budget},
 *         {0}};
 *     int first = ak_options(argc, argv, "[GRAPH]", "what the tool does, one sentence", options);
 *     (argv[first..] are the operands)
 */
#ifndef AK_OPTION_H
#define AK_OPTION_H

#include <stdbool.h>
#include <stdint.h>

enum ak_option_type {
    AK_OPT_FLAG, /* bool *: becomes true */
    AK_OPT_STR,  /* const char ** */
    AK_OPT_INT,  /* int64_t *: a whole number, nothing after it */
    AK_OPT_NUM   /* double *: finite */
};

struct ak_option {
    int letter; /* 0: long form only */
    const char *name, *value, *help;
    enum ak_option_type type;
    void *to; /* --help shows what it holds at the start as the default */
};

extern bool ak_option_quiet, ak_option_verbose;

/* Parses options wherever they stand, moving operands to the end; sets ak_tool from argv[0]; --help and --version exit 0, misuse
 * exits 2. Returns the index of the first operand. `options` ends with {0} (no name). */
int ak_options(int argc, char **argv, const char *operands, const char *about, const struct ak_option *options);

/* exit(2) with the message and a pointer to --help. */
void ak_usage_error(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define AK_VERSION "0.1.0"

#endif
