/* FNV-1a, 128 bits (Fowler, Noll, Vo; draft-eastlake-fnv): names what a file's contents are. */
#ifndef AK_HASH_H
#define AK_HASH_H

#include <stddef.h>

struct ak_hash {
    unsigned __int128 h;
};
struct ak_hash ak_hash_start(void);
void ak_hash_add(struct ak_hash *h, const void *data, size_t n);
void ak_hash_add_str(struct ak_hash *h, const char *s); /* with its terminating zero, so that "ab","c" is not "a","bc" */
char *ak_hash_hex(const struct ak_hash *h, char buf[static 33]); /* 32 lower-case digits */

#endif
