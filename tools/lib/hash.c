#include "hash.h"

#include <stdio.h>
#include <string.h>

struct ak_hash ak_hash_start(void) {
    return (struct ak_hash){(unsigned __int128)0x6c62272e07bb0142u << 64 | 0x62b821756295c58du};
}

void ak_hash_add(struct ak_hash *h, const void *data, size_t n) {
    const unsigned __int128 prime = (unsigned __int128)1 << 88 | 0x13b;
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h->h = (h->h ^ p[i]) * prime;
}

void ak_hash_add_str(struct ak_hash *h, const char *s) { ak_hash_add(h, s, strlen(s) + 1); }

char *ak_hash_hex(const struct ak_hash *h, char buf[static 33]) {
    snprintf(buf, 33, "%016llx%016llx", (unsigned long long)(h->h >> 64), (unsigned long long)h->h);
    return buf;
}
