/* The zip reader against archives right and wrong. */
#include <stdbool.h>

#include "zip.h"

#include "make_zip.h"
#include "tap.h"

static struct ak_err err;

static int open_bytes(struct ak_zip *z, const void *p, size_t n) {
    char path[64];
    int fd = mz_file(p, n, path);
    err = (struct ak_err){0};
    return ak_zip_open_fd(z, fd, "test.zip", &err);
}

/* Ends the archive; whether it is refused with those words. */
static bool refused(struct mz *m, const char *why) {
    struct ak_zip z;
    mz_end(m, 0);
    int rc = open_bytes(&z, m->p, m->n);
    if (!rc) {
        char *text = z.n ? ak_zip_read(&z, &z.members[0], 1 << 20, &err) : NULL;
        rc = text ? 0 : -1;
        free(text);
        ak_zip_close(&z);
    }
    mz_free(m);
    if (!rc || !strstr(err.msg, why)) printf("# %s: '%s'\n", rc ? "another reason" : "accepted", err.msg);
    return rc && strstr(err.msg, why) && err.code == AK_EXIT_INPUT;
}

static char *text_of(const struct ak_zip *z, const char *name) {
    const struct ak_zip_member *m = ak_zip_find(z, name);
    return m ? ak_zip_read(z, m, 1 << 20, &err) : NULL;
}

static void reads(int flags, int end, const char *what) {
    struct mz m = {0};
    struct ak_zip z;
    char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    mz_text(&m, "a/one", "first", flags);
    mz_add(&m, "a/", 2, NULL, 0, flags & ~MZ_DEFLATE);
    mz_text(&m, "a/empty", "", flags);
    mz_text(&m, "two", long_text, flags);
    mz_end(&m, end);
    int rc = open_bytes(&z, m.p, m.n);
    ok(rc == 0, "%s: opens%s%s", what, rc ? ": " : "", rc ? err.msg : "");
    if (rc) return;
    char *one = text_of(&z, "a/one"), *empty = text_of(&z, "a/empty"), *two = text_of(&z, "two");
    ok(z.n == 3 && !ak_zip_find(&z, "a/"), "%s: folders are left out", what);
    ok(one && strcmp(one, "first") == 0 && empty && !*empty && two && strcmp(two, long_text) == 0, "%s: contents", what);
    ok(flags & MZ_DEFLATE || memcmp(m.p + ak_zip_find(&z, "two")->at, "xxx", 3) == 0, "%s: a stored member lies where it says", what);
    free(one);
    free(empty);
    free(two);
    ak_zip_close(&z);
    mz_free(&m);
}

static void lies(void) {
    struct mz m = {0};
    m.claim_bytes = 1 << 20;
    mz_text(&m, "a", "text", 0);
    ok(refused(&m, "outside"), "a stored size past the end");
    m.claim_bytes = 1 << 20;
    mz_text(&m, "a", "text", MZ_DEFLATE);
    ok(refused(&m, "deflate cannot reach"), "a size that deflate cannot reach");
    m.claim_bytes = 100;
    mz_text(&m, "a", "text", MZ_DEFLATE);
    ok(refused(&m, "CRC"), "less inflates than the directory says");
    m.claim_bytes = 2;
    mz_text(&m, "a", "text that is longer", MZ_DEFLATE);
    ok(refused(&m, "size the directory says"), "more inflates than the directory says");
    m.claim_crc = 1;
    mz_text(&m, "a", "text", 0);
    ok(refused(&m, "CRC"), "a wrong CRC");
    m.claim_bytes = UINT64_MAX - 8;
    mz_text(&m, "a", "text", MZ_ZIP64);
    ok(refused(&m, "outside"), "a size that overflows");
    m.claim_at = UINT64_MAX - 8;
    mz_text(&m, "a", "text", MZ_ZIP64);
    ok(refused(&m, "outside"), "an offset that overflows");
    m.method = 12;
    mz_text(&m, "a", "text", 0);
    ok(refused(&m, "method 12"), "bzip2 is named by its number");
    mz_text(&m, "a", "text", 0);
    mz_text(&m, "a", "text", 0);
    ok(refused(&m, "twice"), "a name that is there twice");
    mz_text(&m, "a", "text", 0);
    m.claim_at = 0;
    mz_text(&m, "b", "text", 0);
    m.dir[46 + 1 + 42] = 0; /* b's offset: a's */
    ok(refused(&m, "called otherwise"), "a member whose local header has another name");
}

static void names(void) {
    static const char *const bad[] = {"../a", "a/../../b", "/etc/passwd", "a/..", "..", "a\\b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mz m = {0};
        mz_text(&m, bad[i], "text", 0);
        ok(refused(&m, "leads elsewhere"), "the name '%s'", bad[i]);
    }
    struct mz m = {0};
    mz_add(&m, "a\0b", 3, "text", 4, 0);
    ok(refused(&m, "leads elsewhere"), "a name with NUL in it");
    mz_text(&m, "a..b/..c", "text", 0);
    mz_end(&m, 0);
    struct ak_zip z;
    ok(open_bytes(&z, m.p, m.n) == 0, "dots that are part of a name");
    ak_zip_close(&z);
    mz_free(&m);
}

static void overlap(void) {
    /* two directory entries over one local header and its data, the bomb's way */
    struct mz m = {0};
    mz_text(&m, "a", "some text", 0);
    size_t n = m.dir_n;
    m.dir = realloc(m.dir, m.dir_cap = 2 * n);
    memcpy(m.dir + n, m.dir, n);
    m.dir_n = 2 * n;
    m.count = 2;
    ok(refused(&m, "twice"), "one member listed twice");
}

static void cut_short(void) {
    struct mz m = {0};
    struct ak_zip z;
    mz_text(&m, "a/one", "first", 0);
    mz_text(&m, "a/two", "second", MZ_DEFLATE);
    mz_end(&m, MZ_ZIP64);
    bool all = true;
    for (size_t n = 0; n < m.n; n++)
        if (open_bytes(&z, m.p, n) == 0) {
            all = false;
            ak_zip_close(&z);
        }
    ok(all, "every beginning of an archive is refused");
    mz_free(&m);
}

int main(void) {
    reads(0, 0, "stored");
    reads(MZ_DEFLATE, 0, "deflated");
    reads(MZ_DESCRIPTOR, MZ_ZIP64, "torch's form");
    reads(MZ_DESCRIPTOR | MZ_DEFLATE, 0, "deflated with descriptors");
    reads(MZ_ZIP64, MZ_ZIP64, "zip64");
    reads(MZ_ZIP64 | MZ_DEFLATE, 0, "zip64 fields, plain end record");
    lies();
    names();
    overlap();
    cut_short();
    struct ak_zip z;
    ok(ak_zip_open(&z, "/nonexistent/x.zip", &err) && strstr(err.msg, "'/nonexistent/x.zip'"), "a file that is not there is named");
    return done();
}
