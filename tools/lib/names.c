/* Open addressing, at most half full. */
#include "names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

static struct ak_names_slot *slot_of(const struct ak_names *s, const char *name) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    size_t i = (size_t)(h ^ h >> 32) & (s->cap - 1);
    while (s->slots[i].name && strcmp(s->slots[i].name, name))
        i = (i + 1) & (s->cap - 1);
    return &s->slots[i];
}

static void grow(struct ak_names *s) {
    struct ak_names old = *s;
    s->cap = old.cap ? 2 * old.cap : 64;
    s->slots = ak_calloc(s->cap, sizeof *s->slots);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].name) *slot_of(s, old.slots[i].name) = old.slots[i];
    free(old.slots);
}

int ak_names_add(struct ak_names *s, const char *name, int id) {
    if (2 * (s->n + 1) > s->cap) grow(s);
    struct ak_names_slot *slot = slot_of(s, name);
    if (slot->name) return -1;
    *slot = (struct ak_names_slot){name, id};
    s->n++;
    return 0;
}

int ak_names_find(const struct ak_names *s, const char *name) {
    if (!s->n) return -1;
    const struct ak_names_slot *slot = slot_of(s, name);
    return slot->name ? slot->id : -1;
}

void ak_names_release(struct ak_names *s) {
    free(s->slots);
    *s = (struct ak_names){0};
}
