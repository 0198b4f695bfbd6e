#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ak_tool = "ak";

static void vset(struct ak_err *err, int code, const char *fmt, va_list ap) {
    err->code = code;
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
}

int ak_fail(struct ak_err *err, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vset(err, code, fmt, ap);
    va_end(ap);
    return -1;
}

int ak_fail_errno(struct ak_err *err, int code, const char *fmt, ...) {
    const char *why = strerror(errno);
    va_list ap;
    va_start(ap, fmt);
    vset(err, code, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", why);
    return -1;
}

int ak_fail_in(struct ak_err *err, const char *fmt, ...) {
    char inner[sizeof err->msg];
    memcpy(inner, err->msg, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    vset(err, err->code, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", inner);
    return -1;
}

static void vsay(const char *fmt, va_list ap, const char *why) {
    fflush(stdout);
    flockfile(stderr);
    fprintf(stderr, "%s: ", ak_tool);
    vfprintf(stderr, fmt, ap);
    if (why) fprintf(stderr, ": %s", why);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void ak_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsay(fmt, ap, NULL);
    va_end(ap);
}

void ak_die(int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsay(fmt, ap, NULL);
    va_end(ap);
    exit(code);
}

void ak_die_errno(int code, const char *fmt, ...) {
    const char *why = strerror(errno);
    va_list ap;
    va_start(ap, fmt);
    vsay(fmt, ap, why);
    va_end(ap);
    exit(code);
}

void ak_die_err(const struct ak_err *err) {
    ak_die(err->code ? err->code : AK_EXIT_IO, "%s", err->msg);
}
