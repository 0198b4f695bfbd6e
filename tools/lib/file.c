#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "mem.h"

static bool is_std(const char *path) { return strcmp(path, "-") == 0; }

char *ak_file_read(const char *path, size_t limit, size_t *len, struct ak_err *err) {
    int fd = is_std(path) ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        fd = -1;
    }
    gzFile gz = fd < 0 ? NULL : gzdopen(fd, "rb");
    if (!gz) {
        ak_fail_errno(err, AK_EXIT_INPUT, "cannot read '%s'", path);
        if (fd >= 0) close(fd);
        return NULL;
    }
    gzbuffer(gz, 1 << 17);
    size_t n = 0, cap = 1 << 16;
    char *buf = ak_malloc(cap);
    int got;
    while ((got = gzread(gz, buf + n, (unsigned)(cap - n - 1))) > 0) {
        n += (size_t)got;
        if (n > limit) break;
        if (n + 1 == cap) buf = ak_realloc(buf, cap *= 2, 1);
    }
    int code = Z_OK;
    const char *why = gzerror(gz, &code);
    if (got < 0 || code == Z_BUF_ERROR) {
        ak_fail(err, AK_EXIT_INPUT, "cannot read '%s': %s", path, code == Z_ERRNO ? strerror(errno) : why);
        goto fail;
    }
    if (n > limit || got > 0) {
        ak_fail(err, AK_EXIT_INPUT, "'%s' is too large: more than %zu bytes", path, limit);
        goto fail;
    }
    gzclose(gz);
    buf[n] = '\0';
    if (len) *len = n;
    return buf;
fail:
    gzclose(gz);
    free(buf);
    return NULL;
}

int ak_map_open(struct ak_map *m, const char *path, struct ak_err *err) {
    *m = (struct ak_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        ak_fail_errno(err, AK_EXIT_INPUT, "cannot read '%s'", path);
        if (fd >= 0) close(fd);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return ak_fail(err, AK_EXIT_INPUT, "cannot map '%s': not a regular file", path);
    }
    m->size = (size_t)st.st_size;
    if (m->size) {
        void *p = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            close(fd);
            return ak_fail_errno(err, AK_EXIT_INPUT, "cannot map '%s'", path);
        }
        m->data = p;
    }
    close(fd);
    return 0;
}

void ak_map_close(struct ak_map *m) {
    if (m->data) munmap((void *)m->data, m->size);
    *m = (struct ak_map){0};
}

int ak_out_open(struct ak_out *out, const char *path, struct ak_err *err) {
    *out = (struct ak_out){0};
    if (is_std(path)) {
        out->f = stdout;
        return 0;
    }
    out->path = ak_strdup(path);
    out->tmp = ak_asprintf("%s.tmp.%ld", path, (long)getpid());
    out->f = fopen(out->tmp, "we");
    if (out->f) return 0;
    ak_fail_errno(err, AK_EXIT_IO, "cannot write '%s'", out->tmp);
    free(out->path);
    free(out->tmp);
    *out = (struct ak_out){0};
    return -1;
}

int ak_out_close(struct ak_out *out, struct ak_err *err) {
    if (!out->path) {
        if (fflush(out->f) || ferror(out->f)) return ak_fail_errno(err, AK_EXIT_IO, "cannot write standard output");
        return 0;
    }
    bool bad = fflush(out->f) || ferror(out->f);
    int why = errno;
    if (fclose(out->f) && !bad) {
        bad = true;
        why = errno;
    }
    out->f = NULL;
    if (!bad && rename(out->tmp, out->path)) {
        bad = true;
        why = errno;
    }
    if (bad) {
        errno = why;
        ak_fail_errno(err, AK_EXIT_IO, "cannot write '%s'", out->path);
    }
    ak_out_abandon(out);
    return bad ? -1 : 0;
}

void ak_out_abandon(struct ak_out *out) {
    if (!out->path) return;
    if (out->f) fclose(out->f);
    unlink(out->tmp);
    free(out->path);
    free(out->tmp);
    *out = (struct ak_out){0};
}

bool ak_file_exists(const char *path) { return access(path, F_OK) == 0; }

int ak_mkdirs(const char *path, struct ak_err *err) {
    char *p = ak_strdup(path);
    int rc = 0;
    for (char *s = p + 1; rc == 0; s++) {
        if (*s != '/' && *s != '\0') continue;
        char was = *s;
        *s = '\0';
        if (mkdir(p, 0777) && errno != EEXIST) rc = ak_fail_errno(err, AK_EXIT_IO, "cannot make folder '%s'", p);
        *s = was;
        if (was == '\0') break;
    }
    free(p);
    return rc;
}

char *ak_path_join(const char *dir, const char *name) {
    if (name[0] == '/' || dir[0] == '\0') return ak_strdup(name);
    return ak_asprintf("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
}

char *ak_path_dir(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return ak_strdup(".");
    if (slash == path) return ak_strdup("/");
    return ak_asprintf("%.*s", (int)(slash - path), path);
}

int ak_lock(const char *path, bool wait, struct ak_err *err) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return ak_fail_errno(err, AK_EXIT_IO, "cannot open lock '%s'", path);
    int rc;
    while ((rc = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB))) && errno == EINTR)
        continue;
    if (rc == 0) return fd;
    if (errno == EWOULDBLOCK)
        ak_fail(err, AK_EXIT_IO, "'%s' is held by another process", path);
    else
        ak_fail_errno(err, AK_EXIT_IO, "cannot lock '%s'", path);
    close(fd);
    return -1;
}
