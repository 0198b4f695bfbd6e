/* Zip archives: the directory of a file, and its members. Nothing is mapped and no weight is touched: a
 * stored member is a byte range of the file. */
#ifndef AK_ZIP_H
#define AK_ZIP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"
#include "mem.h"
#include "names.h"

struct ak_zip_member {
    const char *name;
    uint64_t at;            /* of its bytes in the file */
    uint64_t packed, bytes; /* in the file; once inflated */
    uint32_t crc;
    bool deflated; /* else stored */
};
struct ak_zip {
    int fd;
    const char *path;
    uint64_t bytes;
    struct ak_zip_member *members; /* in the order of the directory; folders are left out */
    size_t n;
    struct ak_names names;
    struct ak_arena arena;
};

bool ak_zip_is(const char *path); /* begins as a zip file does */
/* Checks the whole directory: ranges inside the file and apart from one another, names relative, unique and without "..",
 * sizes that deflate could make. */
int ak_zip_open(struct ak_zip *z, const char *path, struct ak_err *err);
int ak_zip_open_fd(struct ak_zip *z, int fd, const char *path, struct ak_err *err); /* takes fd */
void ak_zip_close(struct ak_zip *z);

const struct ak_zip_member *ak_zip_find(const struct ak_zip *z, const char *name); /* or NULL */
/* The bytes of a member, CRC checked, NUL-terminated; freed by the caller. NULL if there are more than limit. */
char *ak_zip_read(const struct ak_zip *z, const struct ak_zip_member *m, size_t limit, struct ak_err *err);
/* Gives the bytes to `to` in pieces, CRC checked at the end; `to` returns nonzero to stop. */
int ak_zip_stream(const struct ak_zip *z, const struct ak_zip_member *m, int (*to)(void *arg, const void *p, size_t n), void *arg,
                  struct ak_err *err);

#endif
