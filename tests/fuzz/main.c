/* Runs a fuzz target over its corpus, tests/fuzz/corpus/NAME/, and variations of it, the same every
 * time; or over the files it is given. TAP, a line for each file that it got to the end of. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { VARIATIONS = 300, ROOM = 200 };

static int count;
static uint64_t state = 1;

static unsigned draw(unsigned n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* A few bytes changed and, of short inputs, any number; run in a buffer of exactly its size, so that
 * a sanitizer sees a read past the end. */
static void vary(const uint8_t *p, size_t n) {
    size_t size = n < ROOM ? n + draw(ROOM) : draw(8) ? n : draw((unsigned)n);
    uint8_t *q = calloc(size ? size : 1, 1);
    memcpy(q, p, n < size ? n : size);
    for (size_t i = n; i < size; i++)
        q[i] = (uint8_t)draw(256);
    for (unsigned k = n < 16 ? (unsigned)size : 1 + draw(8); k && size; k--)
        q[draw((unsigned)size)] = (uint8_t)draw(256);
    LLVMFuzzerTestOneInput(q, size);
    free(q);
}

static void run(const char *path, int variations) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    uint8_t *p = malloc(1 << 22);
    size_t n = fread(p, 1, 1 << 22, f);
    fclose(f);
    p = realloc(p, n ? n : 1);
    LLVMFuzzerTestOneInput(p, n);
    for (int i = 0; i < (n < 16 ? 100 * variations : variations); i++)
        vary(p, n);
    free(p);
    printf("ok %d - %s\n", ++count, path);
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

int main(int argc, char **argv) {
    const char *name = strstr(argv[0], "fuzz_");
    struct dirent **files = NULL;
    char dir[256], path[1024];
    for (int i = 1; i < argc; i++)
        run(argv[i], 0);
    snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", name ? name + 5 : "");
    int n = argc > 1 ? 0 : scandir(dir, &files, visible, alphasort);
    if (n < 0) {
        perror(dir);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name);
        run(path, VARIATIONS);
        free(files[i]);
    }
    if (argc <= 1) free(files);
    printf("1..%d\n", count);
    return 0;
}
