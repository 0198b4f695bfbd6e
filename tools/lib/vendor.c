#include "vendor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"

struct row {
    char *type;
    size_t lib;
};
struct lib {
    char *path;
    struct ak_kernel k;
};
struct ak_vendor {
    struct row *rows;
    size_t nrows, cap_rows;
    struct lib *libs;
    size_t nlibs, cap_libs;
    struct ak_arena arena;
};

static size_t lib_index(struct ak_vendor *v, const char *dir, const char *file) {
    char *path = ak_path_join(dir, file);
    size_t i = 0;
    while (i < v->nlibs && strcmp(v->libs[i].path, path) != 0)
        i++;
    if (i == v->nlibs) {
        AK_GROW(v->libs, v->nlibs, v->cap_libs);
        v->libs[v->nlibs++] = (struct lib){.path = ak_arena_strdup(&v->arena, path)};
    }
    free(path);
    return i;
}

static int read_index(struct ak_vendor *v, const char *dir, char *text, const char *path, struct ak_err *err) {
    size_t line = 0;
    char *save, *l;
    for (l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        line++;
        char *inner, *type = strtok_r(l, " \t", &inner), *file = strtok_r(NULL, " \t", &inner);
        if (!type) continue;
        if (!file || strtok_r(NULL, " \t", &inner))
            return ak_fail(err, AK_EXIT_INPUT, "'%s' line %zu is not 'TYPE FILE.so': remove it and run make", path, line);
        AK_GROW(v->rows, v->nrows, v->cap_rows);
        v->rows[v->nrows++] = (struct row){ak_arena_strdup(&v->arena, type), lib_index(v, dir, file)};
    }
    return 0;
}

struct ak_vendor *ak_vendor_open(const char *dir, struct ak_err *err) {
    struct ak_vendor *v = ak_calloc(1, sizeof *v);
    char *path = ak_path_join(dir, "INDEX"), *text = NULL;
    int rc = -1;
    if (!ak_file_exists(path))
        ak_fail(err, AK_EXIT_MACHINE, "no vendor kernels at '%s': run make kernels", dir);
    else if ((text = ak_file_read(path, 1 << 20, NULL, err)))
        rc = read_index(v, dir, text, path, err);
    free(text);
    free(path);
    if (rc == 0) return v;
    ak_vendor_close(v);
    return NULL;
}

void ak_vendor_close(struct ak_vendor *v) {
    if (!v) return;
    for (size_t i = 0; i < v->nlibs; i++)
        ak_kernel_close(&v->libs[i].k);
    free(v->libs);
    free(v->rows);
    ak_arena_release(&v->arena);
    free(v);
}

static struct lib *nth_lib(const struct ak_vendor *v, const char *type, size_t nth) {
    for (size_t i = 0; i < v->nrows; i++)
        if (strcmp(v->rows[i].type, type) == 0 && nth-- == 0) return &v->libs[v->rows[i].lib];
    return NULL;
}

const char *ak_vendor_path(const struct ak_vendor *v, const char *type, size_t nth) {
    const struct lib *l = nth_lib(v, type, nth);
    return l ? l->path : NULL;
}

int ak_vendor_find(struct ak_vendor *v, const char *type, size_t nth, const struct ak_kernel **k, struct ak_err *err) {
    *k = NULL;
    struct lib *l = nth_lib(v, type, nth);
    if (!l) return 0;
    if (!l->k.handle && ak_kernel_open(&l->k, l->path, err)) return -1;
    *k = &l->k;
    return 0;
}

const char *ak_vendor_dir(void) {
    static char dir[4096 + 32];
    ssize_t n = readlink("/proc/self/exe", dir, 4096);
    if (n < 0) n = 0;
    dir[n] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(dir, '/');
        if (slash) *slash = '\0';
    }
    return strcat(dir, "/lib/vendor");
}
