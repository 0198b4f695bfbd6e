/* Runs a fuzz target over files: main CORPUS_FILE... (TAP: it got to the end of each.) */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        uint8_t *p = malloc(1 << 22);
        size_t n = fread(p, 1, 1 << 22, f);
        fclose(f);
        p = realloc(p, n ? n : 1); /* so that a sanitizer sees a read past the end */
        LLVMFuzzerTestOneInput(p, n);
        free(p);
        printf("ok %d - %s\n", i, argv[i]);
    }
    printf("1..%d\n", argc - 1);
    return 0;
}
