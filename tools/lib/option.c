#include "option.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "mem.h"

bool ak_option_quiet, ak_option_verbose;

static const struct ak_option shared[] = {
    {'q', "quiet", NULL, "say nothing but errors", AK_OPT_FLAG, &ak_option_quiet},
    {'v', "verbose", NULL, "say more", AK_OPT_FLAG, &ak_option_verbose},
    {0},
};

enum { HELP = 1, VERSION = 2, FIRST = 256 };

void ak_usage_error(const char *fmt, ...) {
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    ak_warn("%s", msg);
    fprintf(stderr, "try '%s --help'\n", ak_tool);
    exit(AK_EXIT_USAGE);
}

static void help_one(const struct ak_option *o) {
    char left[64], letter[8] = "   ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c,", o->letter);
    snprintf(left, sizeof left, "%s --%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-28s %s", left, o->help);
    if (o->type == AK_OPT_STR && *(const char **)o->to) printf(" (default: %s)", *(const char **)o->to);
    if (o->type == AK_OPT_INT) printf(" (default: %lld)", (long long)*(int64_t *)o->to);
    if (o->type == AK_OPT_NUM) printf(" (default: %g)", *(double *)o->to);
    putchar('\n');
}

static void help(const char *operands, const char *about, const struct ak_option *options) {
    printf("usage: %s [options]%s%s\n%s\n\n", ak_tool, operands[0] ? " " : "", operands, about);
    for (const struct ak_option *o = options; o->name; o++)
        help_one(o);
    for (const struct ak_option *o = shared; o->name; o++)
        help_one(o);
    puts("  -h, --help                   show this and exit\n      --version                show the version and exit");
    if (fflush(stdout)) ak_die_errno(AK_EXIT_IO, "cannot write standard output");
    exit(AK_EXIT_YES);
}

static void set(const struct ak_option *o, const char *text) {
    char *end;
    errno = 0;
    switch (o->type) {
    case AK_OPT_FLAG: *(bool *)o->to = true; break;
    case AK_OPT_STR: *(const char **)o->to = text; break;
    case AK_OPT_INT: {
        long long v = strtoll(text, &end, 10);
        if (errno || end == text || *end) ak_usage_error("--%s wants a whole number, not '%s'", o->name, text);
        *(int64_t *)o->to = v;
        break;
    }
    case AK_OPT_NUM: {
        double v = strtod(text, &end);
        if (errno || end == text || *end || !isfinite(v)) ak_usage_error("--%s wants a number, not '%s'", o->name, text);
        *(double *)o->to = v;
        break;
    }
    }
}

int ak_options(int argc, char **argv, const char *operands, const char *about, const struct ak_option *options) {
    static bool parsed;
    const char *slash = strrchr(argv[0], '/');
    if (!parsed) ak_tool = slash ? slash + 1 : argv[0];
    parsed = true;
    optind = 0; /* glibc: start anew */
    const struct ak_option *all[64];
    struct option longs[67] = {{"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}};
    char shorts[160] = ":h";
    int n = 0;
    for (int t = 0; t < 2; t++)
        for (const struct ak_option *o = t ? shared : options; o->name; o++, n++) {
            all[n] = o;
            longs[n + 2] = (struct option){o->name, o->type == AK_OPT_FLAG ? no_argument : required_argument, NULL, FIRST + n};
            if (!o->letter) continue;
            size_t at = strlen(shorts);
            snprintf(shorts + at, sizeof shorts - at, "%c%s", o->letter, o->type == AK_OPT_FLAG ? "" : ":");
        }
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (c == 'h' || c == HELP) help(operands, about, options);
        if (c == VERSION) {
            printf("%s %s\n", ak_tool, AK_VERSION);
            exit(AK_EXIT_YES);
        }
        if (c == ':') ak_usage_error("option '%s' wants a value", argv[optind - 1]);
        if (c == '?') ak_usage_error("unknown option '%s'", argv[optind - 1]);
        for (int i = 0; i < n; i++)
            if (c == FIRST + i || (all[i]->letter && c == all[i]->letter)) set(all[i], optarg);
    }
    return optind;
}
