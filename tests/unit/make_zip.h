/* Zip archives made in memory, right and wrong, for tests. */
#ifndef MAKE_ZIP_H
#define MAKE_ZIP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum {
    MZ_DEFLATE = 1,
    MZ_ZIP64 = 2,     /* sizes and offset in the zip64 extra field */
    MZ_DESCRIPTOR = 4 /* zeros in the local header, as torch writes */
};

struct mz {
    uint8_t *p, *dir;
    size_t n, cap, dir_n, dir_cap, count;
    /* what the next member claims, if not the truth */
    uint64_t claim_bytes, claim_at;
    uint32_t claim_crc;
    int method; /* 0: as the flags say */
};

static inline void mz_put(uint8_t **p, size_t *n, size_t *cap, const void *data, size_t len) {
    if (*n + len > *cap) *p = realloc(*p, *cap = 2 * (*n + len) + 64);
    if (len) memcpy(*p + *n, data, len);
    *n += len;
}

static inline void mz_le(uint8_t **p, size_t *n, size_t *cap, uint64_t v, int bytes) {
    uint8_t b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (uint8_t)(v >> 8 * i);
    mz_put(p, n, cap, b, (size_t)bytes);
}
#define MZ_LOCAL(v, bytes) mz_le(&z->p, &z->n, &z->cap, (v), (bytes))
#define MZ_DIR(v, bytes) mz_le(&z->dir, &z->dir_n, &z->dir_cap, (v), (bytes))

static inline size_t mz_deflate(const void *data, size_t len, uint8_t *out, size_t room) {
    z_stream s = {0};
    deflateInit2(&s, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
    s.next_in = (Bytef *)data;
    s.avail_in = (uInt)len;
    s.next_out = out;
    s.avail_out = (uInt)room;
    deflate(&s, Z_FINISH);
    deflateEnd(&s);
    return s.total_out;
}

static inline void mz_add(struct mz *z, const char *name, size_t name_len, const void *data, size_t len, int flags) {
    size_t room = len + len / 8 + 64, packed = len;
    uint8_t *buf = malloc(room);
    uint64_t at = z->n, bytes = z->claim_bytes ? z->claim_bytes : len, local = z->claim_at ? z->claim_at : at;
    uint32_t crc = z->claim_crc ? z->claim_crc : (uint32_t)crc32(0, data ? data : (const Bytef *)"", (uInt)len);
    int method = z->method ? z->method : flags & MZ_DEFLATE ? 8 : 0, bits = 0x0800 | (flags & MZ_DESCRIPTOR ? 8 : 0);
    if (flags & MZ_DEFLATE) packed = mz_deflate(data, len, buf, room);
    else if (len) memcpy(buf, data, len);
    uint64_t claim_packed = flags & MZ_DEFLATE ? packed : bytes;
    int zeros = flags & MZ_DESCRIPTOR, big = flags & MZ_ZIP64;
    MZ_LOCAL(0x04034b50, 4), MZ_LOCAL(45, 2), MZ_LOCAL(bits, 2), MZ_LOCAL(method, 2), MZ_LOCAL(0, 4);
    MZ_LOCAL(zeros ? 0 : crc, 4), MZ_LOCAL(zeros ? 0 : claim_packed, 4), MZ_LOCAL(zeros ? 0 : bytes, 4);
    MZ_LOCAL(name_len, 2), MZ_LOCAL(3, 2);
    mz_put(&z->p, &z->n, &z->cap, name, name_len);
    MZ_LOCAL(0, 3); /* an extra field that means nothing */
    mz_put(&z->p, &z->n, &z->cap, buf, packed);
    if (zeros) MZ_LOCAL(0x08074b50, 4), MZ_LOCAL(crc, 4), MZ_LOCAL(packed, 4), MZ_LOCAL(len, 4);
    MZ_DIR(0x02014b50, 4), MZ_DIR(45, 2), MZ_DIR(45, 2), MZ_DIR(bits, 2), MZ_DIR(method, 2), MZ_DIR(0, 4), MZ_DIR(crc, 4);
    MZ_DIR(big ? UINT32_MAX : claim_packed, 4), MZ_DIR(big ? UINT32_MAX : bytes, 4);
    MZ_DIR(name_len, 2), MZ_DIR(big ? 28 : 0, 2), MZ_DIR(0, 2), MZ_DIR(0, 2), MZ_DIR(0, 2), MZ_DIR(0, 4);
    MZ_DIR(big ? UINT32_MAX : local, 4);
    mz_put(&z->dir, &z->dir_n, &z->dir_cap, name, name_len);
    if (big) MZ_DIR(1, 2), MZ_DIR(24, 2), MZ_DIR(bytes, 8), MZ_DIR(claim_packed, 8), MZ_DIR(local, 8);
    z->count++;
    z->claim_bytes = z->claim_at = 0;
    z->claim_crc = 0;
    z->method = 0;
    free(buf);
}

static inline void mz_text(struct mz *z, const char *name, const char *text, int flags) {
    mz_add(z, name, strlen(name), text, strlen(text), flags);
}

static inline void mz_end(struct mz *z, int flags) {
    uint64_t at = z->n;
    mz_put(&z->p, &z->n, &z->cap, z->dir, z->dir_n);
    int big = flags & MZ_ZIP64;
    if (big) {
        uint64_t end64 = z->n;
        MZ_LOCAL(0x06064b50, 4), MZ_LOCAL(44, 8), MZ_LOCAL(45, 2), MZ_LOCAL(45, 2), MZ_LOCAL(0, 4), MZ_LOCAL(0, 4);
        MZ_LOCAL(z->count, 8), MZ_LOCAL(z->count, 8), MZ_LOCAL(z->dir_n, 8), MZ_LOCAL(at, 8);
        MZ_LOCAL(0x07064b50, 4), MZ_LOCAL(0, 4), MZ_LOCAL(end64, 8), MZ_LOCAL(1, 4);
    }
    MZ_LOCAL(0x06054b50, 4), MZ_LOCAL(0, 4), MZ_LOCAL(big ? 0xFFFF : z->count, 2), MZ_LOCAL(big ? 0xFFFF : z->count, 2);
    MZ_LOCAL(big ? UINT32_MAX : z->dir_n, 4), MZ_LOCAL(big ? UINT32_MAX : at, 4), MZ_LOCAL(0, 2);
}

/* The bytes so far as a file without a name; its path lives until the next call. */
static inline int mz_file(const void *p, size_t n, char path[static 64]) {
    int fd = memfd_create("zip", 0);
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)p + done, n - done);
        if (put <= 0) break;
        done += (size_t)put;
    }
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static inline void mz_free(struct mz *z) {
    free(z->p);
    free(z->dir);
    *z = (struct mz){0};
}

#endif
