/* Weights by value id. An entry is resident (mapped, copied or generated) or not; above the cap the
 * least recently used ones go, but never one that was asked for since the last tick. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec.h"
#include "file.h"
#include "rand.h"

struct entry {
    void *data;  /* base of the storage; NULL while not resident */
    bool owned;  /* free() drops it; else it lies in a map */
    size_t bytes;
    uint64_t used; /* the tick of the last use */
};

struct ak_weights {
    const struct ak_graph *g;
    struct entry *entries; /* by value id */
    struct ak_map *maps;   /* by file */
    bool *mapped;
    size_t cap, resident, peak;
    uint64_t tick;
};

struct ak_weights *ak_weights_new(const struct ak_graph *g, size_t cap_bytes) {
    struct ak_weights *w = ak_calloc(1, sizeof *w);
    w->g = g;
    w->cap = cap_bytes ? cap_bytes : SIZE_MAX;
    w->entries = ak_calloc(g->nvalues + 1, sizeof *w->entries);
    w->maps = ak_calloc(g->nfiles + 1, sizeof *w->maps);
    w->mapped = ak_calloc(g->nfiles + 1, sizeof *w->mapped);
    w->tick = 1;
    return w;
}

static void drop(struct ak_weights *w, struct entry *e) {
    if (e->owned) {
        free(e->data);
    } else { /* the pages are the file's: giving them back loses nothing */
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t from = ((uintptr_t)e->data + page - 1) & ~(page - 1), to = ((uintptr_t)e->data + e->bytes) & ~(page - 1);
        if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
    }
    w->resident -= e->bytes;
    e->data = NULL;
}

void ak_weights_free(struct ak_weights *w) {
    if (!w) return;
    for (size_t i = 0; i < w->g->nvalues; i++)
        if (w->entries[i].data && w->entries[i].owned) free(w->entries[i].data);
    for (size_t i = 0; i < w->g->nfiles; i++)
        if (w->mapped[i]) ak_map_close(&w->maps[i]);
    free(w->entries);
    free(w->maps);
    free(w->mapped);
    free(w);
}

void ak_weights_tick(struct ak_weights *w) { w->tick++; }
size_t ak_weights_peak(const struct ak_weights *w) { return w->peak; }

static size_t storage_bytes(const struct ak_value *v) {
    return v->kind == AK_VALUE_FILE ? (size_t)v->bytes : (size_t)ak_extent(&v->t) * ak_dtype_size(v->t.dtype);
}

size_t ak_weights_total(const struct ak_graph *g) {
    size_t total = 0;
    for (size_t i = 0; i < g->nvalues; i++)
        if ((g->values[i].kind == AK_VALUE_FILE || g->values[i].kind == AK_VALUE_RANDOM) && !g->values[i].view_of)
            total += storage_bytes(&g->values[i]);
    return total;
}

static void make_room(struct ak_weights *w, size_t bytes) {
    while (w->resident + bytes > w->cap) {
        struct entry *oldest = NULL;
        for (size_t i = 0; i < w->g->nvalues; i++) {
            struct entry *e = &w->entries[i];
            if (e->data && e->used < w->tick && (!oldest || e->used < oldest->used)) oldest = e;
        }
        if (!oldest) return;
        drop(w, oldest);
    }
}

static void *storage_new(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 64)) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", bytes);
    return p;
}

static int open_map(struct ak_weights *w, int file, struct ak_err *err) {
    if (w->mapped[file]) return 0;
    if (ak_map_open(&w->maps[file], w->g->files[file], err)) return -1;
    w->mapped[file] = true;
    return 0;
}

static int from_file(struct ak_weights *w, const struct ak_value *v, struct entry *e, struct ak_err *err) {
    if (open_map(w, v->file, err)) return -1;
    const struct ak_map *m = &w->maps[v->file];
    if (v->at < 0 || v->bytes < 0 || (uint64_t)v->at > m->size || (uint64_t)v->bytes > m->size - (uint64_t)v->at)
        return ak_fail(err, AK_EXIT_INPUT, "weight '%s': bytes %lld to %lld lie outside '%s' (%zu bytes): import the model again",
                       v->name, (long long)v->at, (long long)(v->at + v->bytes), w->g->files[v->file], m->size);
    if (ak_extent(&v->t) < 0 || ak_extent(&v->t) > v->bytes / (int64_t)ak_dtype_size(v->t.dtype))
        return ak_fail(err, AK_EXIT_INPUT, "weight '%s' reaches past its %lld bytes of '%s'", v->name, (long long)v->bytes,
                       w->g->files[v->file]);
    const uint8_t *p = m->data + v->at;
    e->owned = v->bytes == 0 || (uintptr_t)p % ak_dtype_size(v->t.dtype) != 0;
    e->data = (void *)p;
    if (e->owned) {
        e->data = storage_new(e->bytes);
        if (e->bytes) memcpy(e->data, p, e->bytes);
    }
    return 0;
}

static void generate(const struct ak_value *v, struct entry *e) {
    struct ak_tensor t = v->t;
    t.data = e->data = storage_new(e->bytes);
    e->owned = true;
    if (e->bytes > (size_t)ak_numel(&t) * ak_dtype_size(t.dtype)) memset(e->data, 0, e->bytes);
    ak_rand_fill_normal(&t, v->seed, v->mean, v->std);
}

int ak_weights_get(struct ak_weights *w, int value, struct ak_tensor *t, struct ak_err *err) {
    const struct ak_value *v = &w->g->values[value];
    *t = v->t;
    if (v->kind == AK_VALUE_INLINE) {
        t->data = v->data;
        return 0;
    }
    struct entry *e = &w->entries[value];
    if (!e->data) {
        e->bytes = storage_bytes(v);
        make_room(w, e->bytes);
        if (v->kind == AK_VALUE_RANDOM)
            generate(v, e);
        else if (from_file(w, v, e, err))
            return -1;
        w->resident += e->bytes;
        if (w->resident > w->peak) w->peak = w->resident;
    }
    e->used = w->tick;
    t->data = e->data;
    return 0;
}
