#include "html.h"

#include <stdint.h>
#include <string.h>

#include "file.h"

void ak_html_text(FILE *f, const char *s) {
    for (; *s; s++) {
        const char *as = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : *s == '"' ? "&quot;" : NULL;
        if (as)
            fputs(as, f);
        else
            fputc(*s, f);
    }
}

int ak_html_embed_png(FILE *f, const char *path, struct ak_err *err) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct ak_map m;
    if (ak_map_open(&m, path, err)) return -1;
    fputs("data:image/png;base64,", f);
    for (size_t i = 0; i < m.size; i += 3) {
        size_t left = m.size - i;
        uint32_t v = (uint32_t)m.data[i] << 16 | (left > 1 ? (uint32_t)m.data[i + 1] << 8 : 0) | (left > 2 ? m.data[i + 2] : 0);
        char four[5] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=', left > 2 ? digits[v & 63] : '=', '\0'};
        fputs(four, f);
    }
    ak_map_close(&m);
    return 0;
}
