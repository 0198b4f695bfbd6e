/* Errors. Library functions return -1 (or NULL) and describe the failure in the
 * caller's struct ak_err; tools die() on the spot with its exit status.
 *
 *     struct ak_err err = {0};
 *     if (ak_graph_read(&g, path, &err)) ak_die_err(&err);
 */
#ifndef AK_ERR_H
#define AK_ERR_H

enum ak_exit {
    AK_EXIT_YES = 0,
    AK_EXIT_NO = 1,      /* an honest no: a wrong kernel, no gain, no match */
    AK_EXIT_USAGE = 2,   /* misuse of the tool */
    AK_EXIT_INPUT = 3,   /* unusable input: a model, a file, a rule */
    AK_EXIT_MACHINE = 4, /* what is needed is not on this machine */
    AK_EXIT_IO = 5       /* could not finish: disk, memory, a lock */
};

struct ak_err {
    int code; /* an ak_exit that a tool should end with */
    char msg[1024];
};

/* Sets *err and returns -1, so that `return ak_fail(err, ...)` reads well. */
int ak_fail(struct ak_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with ": " and the text of errno appended. */
int ak_fail_errno(struct ak_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the message of an error on its way up. Returns -1. */
int ak_fail_in(struct ak_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The name that messages begin with; main() sets it first. */
extern const char *ak_tool;

/* Messages to standard error: "tool: message". die() does not return. */
void ak_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void ak_die(int code, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
void ak_die_errno(int code, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
void ak_die_err(const struct ak_err *err) __attribute__((noreturn));

#endif
