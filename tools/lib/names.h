/* Names of things that have small ids: a hash from strings, which it borrows, to integers. */
#ifndef AK_NAMES_H
#define AK_NAMES_H

#include <stddef.h>

/* Zero-initialise. */
struct ak_names {
    struct ak_names_slot {
        const char *name;
        int id;
    } *slots;
    size_t n, cap;
};

int ak_names_add(struct ak_names *s, const char *name, int id); /* 0, or -1 if the name is there already */
int ak_names_find(const struct ak_names *s, const char *name);  /* its id, or -1 */
void ak_names_release(struct ak_names *s);

#endif
