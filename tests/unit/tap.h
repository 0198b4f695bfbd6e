/* TAP for unit tests: ok(condition, "what should hold"); ...; return done(); */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 4, 5))) static void tap_ok(bool good, const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    printf("%sok %d - ", good ? "" : "not ", ++tap_count);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    if (!good) printf("# failed at %s line %d\n", file, line);
    fflush(stdout);
    tap_failed += !good;
}
#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)

static int done(void) {
    printf("1..%d\n", tap_count);
    return tap_failed != 0;
}

#endif
