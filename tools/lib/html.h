/* Writing HTML: text escaped, and a file embedded so that a page needs no other. */
#ifndef AK_HTML_H
#define AK_HTML_H

#include <stdio.h>

#include "err.h"

void ak_html_text(FILE *f, const char *s);
/* data:image/png;base64,... of a file. */
int ak_html_embed_png(FILE *f, const char *path, struct ak_err *err);

#endif
