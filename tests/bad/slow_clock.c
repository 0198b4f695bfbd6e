/* must fail: clock_mismatch: its process says */
#include <elf.h>
#include <link.h>
#include <time.h>
#include "base.h"
/* Replaces clock_gettime in the program that loaded it by a clock that is ten times too slow. */
static int slow(clockid_t id, struct timespec *t) {
    static long long from;
    int rc = clock_gettime(id, t);
    long long ns = t->tv_sec * 1000000000ll + t->tv_nsec;
    if (!from) from = ns;
    ns = from + (ns - from) / 10;
    t->tv_sec = ns / 1000000000, t->tv_nsec = ns % 1000000000;
    return rc;
}
static int patch(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size, (void)arg;
    const ElfW(Dyn) *d = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) *tables[2] = {0};
    size_t bytes[2] = {0};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB) symbols = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB) names = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_JMPREL) tables[0] = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_PLTRELSZ) bytes[0] = d->d_un.d_val;
        if (d->d_tag == DT_RELA) tables[1] = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_RELASZ) bytes[1] = d->d_un.d_val;
    }
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; tables[t] && i < bytes[t] / sizeof(ElfW(Rela)); i++)
            if (strcmp(names + symbols[ELF64_R_SYM(tables[t][i].r_info)].st_name, "clock_gettime") == 0)
                *(void **)(info->dlpi_addr + tables[t][i].r_offset) = (void *)slow;
    return 1; /* the program itself comes first */
}
int ak_launch(const struct ak_call *call) {
    static int done;
    if (!done++) dl_iterate_phdr(patch, NULL);
    return honest_launch(call);
}
