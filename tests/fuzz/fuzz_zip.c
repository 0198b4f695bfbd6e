/* Any bytes as a zip archive: every member of what opens is read. */
#include "zip.h"

#include "../unit/make_zip.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct ak_zip z;
    struct ak_err err;
    int fd = mz_file(data, size, path);
    if (ak_zip_open_fd(&z, fd, path, &err)) return 0;
    for (size_t i = 0; i < z.n; i++)
        free(ak_zip_read(&z, &z.members[i], 1 << 20, &err));
    ak_zip_close(&z);
    return 0;
}
