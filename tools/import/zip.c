/* APPNOTE.TXT 6.3.10. Sizes are taken from the central directory only: torch writes zeros in the
 * local headers and a data descriptor behind the data. */
#include "zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    LOCAL_SIG = 0x04034b50,
    CENTRAL_SIG = 0x02014b50,
    END_SIG = 0x06054b50,
    END64_SIG = 0x06064b50,
    LOCATOR_SIG = 0x07064b50,
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR_SIZE = 20,
    MAX_COMMENT = 65535,
    MAX_DIRECTORY = 64 << 20,
    MAX_RATIO = 1032 /* what deflate can reach, per its Technical Details page */
};

static uint64_t le(const uint8_t *p, int n) {
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

static int refuse(const struct ak_zip *z, struct ak_err *err, const char *why) {
    return ak_fail(err, AK_EXIT_INPUT, "cannot read '%s' as a zip archive: %s", z->path, why);
}

static int read_at(const struct ak_zip *z, uint64_t at, void *p, size_t n, struct ak_err *err) {
    if (at > z->bytes || n > z->bytes - at) return refuse(z, err, "it is cut short");
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(z->fd, (char *)p + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ak_fail_errno(err, AK_EXIT_IO, "cannot read '%s'", z->path);
        if (got == 0) return refuse(z, err, "it is cut short");
        done += (size_t)got;
    }
    return 0;
}

/* ---- the end records ---- */

struct directory {
    uint64_t at, bytes, count;
};

static int zip64_end(const struct ak_zip *z, uint64_t end_at, struct directory *d, struct ak_err *err) {
    uint8_t loc[LOCATOR_SIZE], end[END64_SIZE];
    if (end_at < LOCATOR_SIZE) return 0;
    if (read_at(z, end_at - LOCATOR_SIZE, loc, sizeof loc, err)) return -1;
    if (le(loc, 4) != LOCATOR_SIG) return 0;
    if (le(loc + 4, 4) != 0 || le(loc + 16, 4) > 1) return refuse(z, err, "it is one of several disks");
    uint64_t at = le(loc + 8, 8);
    if (at > end_at - LOCATOR_SIZE || read_at(z, at, end, sizeof end, err)) return refuse(z, err, "its zip64 end record lies outside it");
    if (le(end, 4) != END64_SIG) return refuse(z, err, "its zip64 end record is not one");
    *d = (struct directory){.at = le(end + 48, 8), .bytes = le(end + 40, 8), .count = le(end + 32, 8)};
    return 0;
}

static int find_directory(const struct ak_zip *z, struct directory *d, struct ak_err *err) {
    size_t n = z->bytes < END_SIZE + MAX_COMMENT ? (size_t)z->bytes : END_SIZE + MAX_COMMENT;
    uint8_t *tail = ak_malloc(n + 1);
    uint64_t from = z->bytes - n, end_at = UINT64_MAX;
    int rc = read_at(z, from, tail, n, err);
    for (size_t i = n < END_SIZE ? 0 : n - END_SIZE + 1; i-- > 0 && !rc;)
        if (le(tail + i, 4) == END_SIG && i + END_SIZE + le(tail + i + 20, 2) == n) {
            end_at = from + i;
            *d = (struct directory){.at = le(tail + i + 16, 4), .bytes = le(tail + i + 12, 4), .count = le(tail + i + 10, 2)};
            if (le(tail + i + 4, 2) != 0 && le(tail + i + 4, 2) != 0xFFFF) rc = refuse(z, err, "it is one of several disks");
            break;
        }
    free(tail);
    if (rc) return -1;
    if (end_at == UINT64_MAX) return refuse(z, err, "it has no end record (is it cut short?)");
    if (zip64_end(z, end_at, d, err)) return -1;
    if (d->at > end_at || d->bytes > end_at - d->at) return refuse(z, err, "its directory lies outside it");
    if (d->bytes > MAX_DIRECTORY) return refuse(z, err, "its directory is too large");
    if (d->count > d->bytes / CENTRAL_SIZE) return refuse(z, err, "it claims more members than its directory can hold");
    return 0;
}

/* ---- members ---- */

static int member_fail(const struct ak_zip *z, const char *name, struct ak_err *err, const char *why) {
    return ak_fail(err, AK_EXIT_INPUT, "cannot read '%s' as a zip archive: member '%s' %s", z->path, name, why);
}

static bool bad_name(const char *name, size_t len) {
    if (!len || strlen(name) != len || name[0] == '/' || strchr(name, '\\')) return true;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.') return true;
        if (!*p) break;
    }
    return false;
}

/* 32-bit fields of all ones are in the zip64 extra field, in this order. */
static int zip64_extra(const struct ak_zip *z, struct ak_zip_member *m, uint64_t *local, const uint8_t *extra, size_t n, struct ak_err *err) {
    uint64_t *want[] = {&m->bytes, &m->packed, local};
    bool any = false;
    for (int i = 0; i < 3; i++)
        any |= *want[i] == UINT32_MAX;
    if (!any) return 0;
    for (size_t i = 0; i + 4 <= n;) {
        size_t len = (size_t)le(extra + i + 2, 2);
        if (len > n - i - 4) break;
        if (le(extra + i, 2) != 1) {
            i += 4 + len;
            continue;
        }
        const uint8_t *p = extra + i + 4, *end = p + len;
        for (int k = 0; k < 3; k++) {
            if (*want[k] != UINT32_MAX) continue;
            if (end - p < 8) return member_fail(z, m->name, err, "has a zip64 field that is too short");
            *want[k] = le(p, 8);
            p += 8;
        }
        return 0;
    }
    return 0; /* exactly 4 GiB - 1 */
}

/* Where a member's bytes begin: behind its local header, whose lengths may differ. */
static int locate(const struct ak_zip *z, struct ak_zip_member *m, uint64_t local, const struct directory *d, struct ak_err *err) {
    uint8_t head[LOCAL_SIZE];
    size_t len = strlen(m->name);
    if (local > d->at || d->at - local < LOCAL_SIZE || read_at(z, local, head, sizeof head, err))
        return member_fail(z, m->name, err, "lies outside the file");
    if (le(head, 4) != LOCAL_SIG) return member_fail(z, m->name, err, "has no local header where the directory says");
    char *name = ak_malloc(len + 1);
    bool same = le(head + 26, 2) == len && read_at(z, local + LOCAL_SIZE, name, len, err) == 0 && memcmp(name, m->name, len) == 0;
    free(name);
    if (!same) return member_fail(z, m->name, err, "is called otherwise in its local header");
    m->at = local + LOCAL_SIZE + le(head + 26, 2) + le(head + 28, 2);
    if (m->at > d->at || m->packed > d->at - m->at) return member_fail(z, m->name, err, "lies outside the file");
    return 0;
}

static int check_sizes(const struct ak_zip *z, const struct ak_zip_member *m, unsigned method, unsigned flags, struct ak_err *err) {
    if (flags & 1) return member_fail(z, m->name, err, "is encrypted");
    if (method != 0 && method != 8)
        return ak_fail(err, AK_EXIT_INPUT, "cannot read '%s': member '%s' is compressed by method %u; pack it again with zip -0", z->path, m->name,
                       method);
    if (!m->deflated && m->packed != m->bytes) return member_fail(z, m->name, err, "is stored, yet its two sizes differ");
    if (m->deflated && m->bytes / MAX_RATIO > m->packed) return member_fail(z, m->name, err, "claims a size that deflate cannot reach");
    return 0;
}

/* Reads one entry of the directory; *used is its length. A folder has no name yet when this returns. */
static int read_entry(struct ak_zip *z, const uint8_t *p, size_t left, const struct directory *d, size_t *used, struct ak_err *err) {
    if (left < CENTRAL_SIZE || le(p, 4) != CENTRAL_SIG) return refuse(z, err, "its directory is damaged");
    size_t len = (size_t)le(p + 28, 2), extra = (size_t)le(p + 30, 2), comment = (size_t)le(p + 32, 2);
    if (len + extra + comment > left - CENTRAL_SIZE) return refuse(z, err, "its directory is damaged");
    *used = CENTRAL_SIZE + len + extra + comment;
    char *name = ak_arena_alloc(&z->arena, len + 1);
    memcpy(name, p + CENTRAL_SIZE, len);
    if (bad_name(name, len)) return member_fail(z, name, err, "has a name that leads elsewhere");
    unsigned flags = (unsigned)le(p + 8, 2), method = (unsigned)le(p + 10, 2);
    struct ak_zip_member m = {.name = name,
                              .crc = (uint32_t)le(p + 16, 4),
                              .packed = le(p + 20, 4),
                              .bytes = le(p + 24, 4),
                              .deflated = method == 8};
    uint64_t local = le(p + 42, 4);
    if (zip64_extra(z, &m, &local, p + CENTRAL_SIZE + len, extra, err)) return -1;
    if (name[len - 1] == '/') return 0;
    if (check_sizes(z, &m, method, flags, err) || locate(z, &m, local, d, err)) return -1;
    if (ak_names_add(&z->names, name, (int)z->n)) return member_fail(z, name, err, "is there twice");
    z->members[z->n++] = m;
    return 0;
}

static int by_place(const void *a, const void *b) {
    const struct ak_zip_member *p = *(struct ak_zip_member *const *)a, *q = *(struct ak_zip_member *const *)b;
    return (p->at > q->at) - (p->at < q->at);
}

static int check_overlap(const struct ak_zip *z, struct ak_err *err) {
    struct ak_zip_member **order = ak_malloc((z->n + 1) * sizeof *order);
    int rc = 0;
    for (size_t i = 0; i < z->n; i++)
        order[i] = &z->members[i];
    qsort(order, z->n, sizeof *order, by_place);
    for (size_t i = 1; i < z->n && !rc; i++)
        if (order[i - 1]->at + order[i - 1]->packed > order[i]->at) rc = member_fail(z, order[i]->name, err, "overlaps another");
    free(order);
    return rc;
}

static int read_directory(struct ak_zip *z, struct ak_err *err) {
    struct directory d = {0};
    if (find_directory(z, &d, err)) return -1;
    uint8_t *p = ak_malloc((size_t)d.bytes + 1);
    z->members = ak_arena_alloc(&z->arena, ((size_t)d.count + 1) * sizeof *z->members);
    int rc = read_at(z, d.at, p, (size_t)d.bytes, err);
    size_t at = 0, used = 0;
    for (uint64_t i = 0; i < d.count && !rc; i++, at += used)
        rc = read_entry(z, p + at, (size_t)d.bytes - at, &d, &used, err);
    free(p);
    return rc ? rc : check_overlap(z, err);
}

int ak_zip_open_fd(struct ak_zip *z, int fd, const char *path, struct ak_err *err) {
    struct stat st;
    *z = (struct ak_zip){.fd = fd};
    z->path = ak_arena_strdup(&z->arena, path);
    int rc = 0;
    if (fstat(fd, &st)) rc = ak_fail_errno(err, AK_EXIT_INPUT, "cannot read '%s'", path);
    if (!rc && !S_ISREG(st.st_mode)) rc = ak_fail(err, AK_EXIT_INPUT, "cannot read '%s': not a regular file", path);
    if (!rc) z->bytes = (uint64_t)st.st_size;
    if (!rc) rc = read_directory(z, err);
    if (rc) ak_zip_close(z);
    return rc;
}

int ak_zip_open(struct ak_zip *z, const char *path, struct ak_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ak_fail_errno(err, AK_EXIT_INPUT, "cannot read '%s'", path);
    return ak_zip_open_fd(z, fd, path, err);
}

void ak_zip_close(struct ak_zip *z) {
    if (z->fd >= 0) close(z->fd);
    ak_names_release(&z->names);
    ak_arena_release(&z->arena);
    *z = (struct ak_zip){.fd = -1};
}

bool ak_zip_is(const char *path) {
    uint8_t head[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is = fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && (le(head, 4) == LOCAL_SIG || le(head, 4) == END_SIG);
    if (fd >= 0) close(fd);
    return is;
}

const struct ak_zip_member *ak_zip_find(const struct ak_zip *z, const char *name) {
    int i = ak_names_find(&z->names, name);
    return i < 0 ? NULL : &z->members[i];
}

/* ---- contents ---- */

enum { PIECE = 1 << 16 };

struct stream {
    int (*to)(void *arg, const void *p, size_t n);
    void *arg;
    uint64_t bytes;
    uint32_t crc;
};

static int give(struct stream *s, const void *p, size_t n) {
    s->bytes += n;
    s->crc = (uint32_t)crc32(s->crc, p, (uInt)n);
    return n && s->to(s->arg, p, n) ? -1 : 0;
}

static int inflate_member(const struct ak_zip *z, const struct ak_zip_member *m, struct stream *s, struct ak_err *err) {
    uint8_t *in = ak_malloc(2 * PIECE), *out = in + PIECE;
    z_stream zs = {0};
    int rc = 0, status = inflateInit2(&zs, -15);
    for (uint64_t done = 0; status == Z_OK && !rc;) {
        if (!zs.avail_in && done < m->packed) {
            size_t n = m->packed - done < PIECE ? (size_t)(m->packed - done) : PIECE;
            if ((rc = read_at(z, m->at + done, in, n, err))) break;
            zs.next_in = in;
            zs.avail_in = (uInt)n;
            done += n;
        }
        zs.next_out = out;
        zs.avail_out = PIECE;
        status = inflate(&zs, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END) break;
        size_t n = PIECE - zs.avail_out;
        if (s->bytes + n > m->bytes) { /* more than it may hold */
            status = Z_DATA_ERROR;
            break;
        }
        rc = give(s, out, n);
    }
    inflateEnd(&zs);
    free(in);
    if (!rc && status != Z_STREAM_END) rc = member_fail(z, m->name, err, "does not inflate to the size the directory says");
    return rc;
}

int ak_zip_stream(const struct ak_zip *z, const struct ak_zip_member *m, int (*to)(void *arg, const void *p, size_t n), void *arg,
                  struct ak_err *err) {
    struct stream s = {.to = to, .arg = arg};
    int rc = 0;
    if (m->deflated) {
        rc = inflate_member(z, m, &s, err);
    } else {
        uint8_t *p = ak_malloc(PIECE);
        while (!rc && s.bytes < m->bytes) {
            size_t n = m->bytes - s.bytes < PIECE ? (size_t)(m->bytes - s.bytes) : PIECE;
            rc = read_at(z, m->at + s.bytes, p, n, err) || give(&s, p, n) ? -1 : 0;
        }
        free(p);
    }
    if (rc) return -1;
    if (s.bytes != m->bytes || s.crc != m->crc) return member_fail(z, m->name, err, "is damaged (its CRC is wrong)");
    return 0;
}

struct buffer {
    char *p;
    size_t n;
};

static int append(void *arg, const void *p, size_t n) {
    struct buffer *b = arg;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

char *ak_zip_read(const struct ak_zip *z, const struct ak_zip_member *m, size_t limit, struct ak_err *err) {
    if (m->bytes > limit) {
        ak_fail(err, AK_EXIT_INPUT, "cannot read '%s': member '%s' is larger than %zu bytes", z->path, m->name, limit);
        return NULL;
    }
    struct buffer b = {.p = ak_malloc((size_t)m->bytes + 1)};
    if (ak_zip_stream(z, m, append, &b, err)) {
        free(b.p);
        return NULL;
    }
    b.p[b.n] = '\0';
    return b.p;
}
