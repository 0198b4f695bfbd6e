/* Allocation that dies (exit 5) rather than return NULL, and an arena.
 * Sizes are overflow-checked. Memory from ak_malloc and friends is freed with free(). */
#ifndef AK_MEM_H
#define AK_MEM_H

#include <stddef.h>

void *ak_malloc(size_t size);
void *ak_calloc(size_t n, size_t size); /* zeroed */
void *ak_realloc(void *p, size_t n, size_t size);
char *ak_strdup(const char *s);
void *ak_memdup(const void *p, size_t size);
char *ak_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Makes room for one more element in a growing array: p, its length n, its capacity cap. */
#define AK_GROW(p, n, cap)                                                                                             \
    do {                                                                                                               \
        if ((n) >= (cap)) {                                                                                            \
            (cap) = (cap) ? 2 * (cap) : 8;                                                                             \
            (p) = ak_realloc((p), (cap), sizeof *(p));                                                                 \
        }                                                                                                              \
    } while (0)

/* Memory that is released all at once. Zero-initialise, or call ak_arena_release to empty it. */
struct ak_arena {
    struct ak_arena_block *head;
};
void *ak_arena_alloc(struct ak_arena *a, size_t size); /* zeroed, aligned to 16 */
char *ak_arena_strdup(struct ak_arena *a, const char *s);
void ak_arena_release(struct ak_arena *a);

#endif
