/* Any text as model.json (up to a NUL byte) and as the config of the weights (after it), in an
 * archive that is otherwise sound. */
#include <stdint.h>

#include "graph.h"
#include "pt2.h"

#include "../unit/make_zip.h"
#include "fuzz.h"
#include "json_mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char none[] = "{\"config\": {}}";
    static const uint8_t bytes[8192];
    const uint8_t *nul = memchr(data, 0, size);
    size_t model = nul ? (size_t)(nul - data) : size;
    struct mz m = {0};
    mz_add(&m, "a/data/weights/weight_0", 23, bytes, sizeof bytes, 0);
    mz_add(&m, "a/data/weights/weight_1", 23, bytes, 64, 0);
    mz_add(&m, "a/models/model.json", 19, data, model, 0);
    mz_add(&m, "a/data/weights/model_weights_config.json", 40, nul ? (const char *)nul + 1 : none, nul ? size - model - 1 : sizeof none - 1, 0);
    mz_end(&m, 0);
    char path[64];
    int fd = mz_file(m.p, m.n, path);
    mz_free(&m);
    struct ak_graph g;
    struct ak_err err;
    struct ak_pt2_options opt = {0};
    if (ak_pt2_read(&g, path, &opt, &err) == 0) {
        cJSON *o = ak_graph_to_json(&g);
        cJSON_Delete(o);
        ak_graph_release(&g);
    }
    close(fd);
    return 0;
}
