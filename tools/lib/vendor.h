/* The opponents: which library of kernels/vendor serves a kernel type or an ATen op. The map is
 * DIR/INDEX, lines "TYPE FILE.so", which make writes from the sources. */
#ifndef AK_VENDOR_H
#define AK_VENDOR_H

#include "kernel.h"

struct ak_vendor;

struct ak_vendor *ak_vendor_open(const char *dir, struct ak_err *err);
void ak_vendor_close(struct ak_vendor *v);
/* The nth (from 0) library for a type; *k is NULL where there are no more. Libraries are opened
 * when first asked for; -1 if one does not load. */
int ak_vendor_find(struct ak_vendor *v, const char *type, size_t nth, const struct ak_kernel **k, struct ak_err *err);
/* The same library's path, without loading it; NULL where there are no more. */
const char *ak_vendor_path(const struct ak_vendor *v, const char *type, size_t nth);
/* build/lib/vendor beside the running program's build/bin (static string). */
const char *ak_vendor_dir(void);

#endif
