/* Runs a fuzz target over its corpus, tests/fuzz/corpus/NAME/, or over the files it is given: TAP,
 * a line for each file that it got to the end of. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static int count;

static void run(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    uint8_t *p = malloc(1 << 22);
    size_t n = fread(p, 1, 1 << 22, f);
    fclose(f);
    p = realloc(p, n ? n : 1); /* so that a sanitizer sees a read past the end */
    LLVMFuzzerTestOneInput(p, n);
    free(p);
    printf("ok %d - %s\n", ++count, path);
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

int main(int argc, char **argv) {
    const char *name = strstr(argv[0], "fuzz_");
    struct dirent **files;
    char dir[256], path[1024];
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", name ? name + 5 : "");
    int n = argc > 1 ? 0 : scandir(dir, &files, visible, alphasort);
    if (n < 0) {
        perror(dir);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name);
        run(path);
    }
    printf("1..%d\n", count);
    return 0;
}
