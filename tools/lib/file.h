/* Files: whole reads (plain or gzip), read-only maps, and outputs that appear
 * whole or not at all. A path of "-" is standard input or standard output. */
#ifndef AK_FILE_H
#define AK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"

/* Reads all of path, inflating gzip, refusing more than limit bytes (of inflated text).
 * The result is NUL-terminated (not counted in *len) and freed by the caller. NULL on error. */
char *ak_file_read(const char *path, size_t limit, size_t *len, struct ak_err *err);
#define AK_FILE_LIMIT ((size_t)1 << 30)

struct ak_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
};
int ak_map_open(struct ak_map *m, const char *path, struct ak_err *err);
void ak_map_close(struct ak_map *m);

/* An output beside its final name (PATH.tmp.PID), renamed on close. ak_out_close checks the
 * flush and the close; on failure, and in ak_out_abandon, the temporary file is removed.
 *     struct ak_out out;
 *     if (ak_out_open(&out, path, &err)) ...
 *     fprintf(out.f, ...);
 *     if (ak_out_close(&out, &err)) ... */
struct ak_out {
    FILE *f;
    char *path, *tmp; /* NULL for standard output */
};
int ak_out_open(struct ak_out *out, const char *path, struct ak_err *err);
int ak_out_close(struct ak_out *out, struct ak_err *err);
void ak_out_abandon(struct ak_out *out);

bool ak_file_exists(const char *path);
int ak_mkdirs(const char *path, struct ak_err *err); /* like mkdir -p */
char *ak_path_join(const char *dir, const char *name); /* caller frees; name alone if absolute or dir is "" */
char *ak_path_dir(const char *path);                   /* caller frees; "." where there is no slash */

/* Takes an exclusive lock on path (made if missing; never removed). Returns a descriptor to
 * keep open for as long as the lock is wanted, or -1. With wait false a held lock fails at
 * once with AK_EXIT_IO. */
int ak_lock(const char *path, bool wait, struct ak_err *err);

#endif
