/* must fail: refused: timing: */
/* type: large_matmul */
#include <dlfcn.h>
#include <link.h>
#include "base.h"
/* Finds where the judge keeps the other kernels' functions and puts one there that works twice. */
static int (*theirs[2])(const struct ak_call *);
static int n;
static int twice0(const struct ak_call *c) { return theirs[0](c) | theirs[0](c); }
static int twice1(const struct ak_call *c) { return theirs[1](c) | theirs[1](c); }
static int find(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size, (void)arg;
    void *lib = info->dlpi_name[0] && n < 2 ? dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : NULL, *f = lib ? dlsym(lib, "ak_launch") : NULL;
    if (f && f != (void *)ak_launch) theirs[n++] = (int (*)(const struct ak_call *))f;
    return 0;
}
static int replace(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size, (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_W)) continue;
        /* the first page may be read-only after relocation */
        uintptr_t *from = (uintptr_t *)((info->dlpi_addr + h->p_vaddr + 4095) / 4096 * 4096), *to = (uintptr_t *)(info->dlpi_addr + h->p_vaddr + h->p_memsz);
        for (uintptr_t *p = from; p + 1 < to; p++)
            for (int k = 0; k < n; k++)
                if (*p == (uintptr_t)theirs[k]) *p = (uintptr_t)(k ? twice1 : twice0);
    }
    return 1; /* the program itself comes first */
}
int ak_launch(const struct ak_call *call) {
    static int done;
    if (!done++) {
        dl_iterate_phdr(find, NULL);
        dl_iterate_phdr(replace, NULL);
    }
    return honest_launch(call);
}
