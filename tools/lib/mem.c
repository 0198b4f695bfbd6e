#include "mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"

static void *must(void *p, size_t size) {
    if (!p && size) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", size);
    return p;
}

static size_t product(size_t n, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(n, size, &total)) ak_die(AK_EXIT_IO, "out of memory (%zu times %zu bytes wanted)", n, size);
    return total;
}

void *ak_malloc(size_t size) { return must(malloc(size), size); }
void *ak_calloc(size_t n, size_t size) { return must(calloc(n, size), product(n, size)); }
void *ak_realloc(void *p, size_t n, size_t size) { return must(realloc(p, product(n, size)), product(n, size)); }
char *ak_strdup(const char *s) { return must(strdup(s), 1); }

void *ak_memdup(const void *p, size_t size) {
    void *q = ak_malloc(size);
    if (size) memcpy(q, p, size);
    return q;
}

char *ak_asprintf(const char *fmt, ...) {
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return must(n < 0 ? NULL : s, 1);
}

struct ak_arena_block {
    struct ak_arena_block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *ak_arena_alloc(struct ak_arena *a, size_t size) {
    enum { BLOCK = 64 * 1024 };
    if (size > SIZE_MAX - BLOCK) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", size);
    size = (size + 15) & ~(size_t)15;
    struct ak_arena_block *b = a->head;
    if (!b || b->size - b->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;
        b = ak_calloc(1, sizeof *b + room);
        b->size = room;
        b->next = a->head;
        a->head = b;
    }
    void *p = b->bytes + b->used;
    b->used += size;
    return p;
}

char *ak_arena_strdup(struct ak_arena *a, const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(ak_arena_alloc(a, n), s, n);
}

void ak_arena_release(struct ak_arena *a) {
    for (struct ak_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
}
