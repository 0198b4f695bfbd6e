/* The format: 8 bytes of length, that much JSON, then bytes that the tensors tile exactly. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "names.h"

enum { MAX_HEADER = 100000000 };

struct range {
    int64_t from, to;
};

static int read_shape(const cJSON *o, struct ak_tensor *t, struct ak_err *err) {
    const cJSON *shape, *v;
    int64_t dims[AK_MAX_DIMS], numel = 1;
    int n = 0;
    if (ak_json_array(o, "shape", &shape, err)) return -1;
    cJSON_ArrayForEach(v, shape) {
        if (n == AK_MAX_DIMS) return ak_fail(err, AK_EXIT_INPUT, "it has more than %d dimensions", AK_MAX_DIMS);
        if (ak_json_as_i64(v, &dims[n], err) || dims[n] < 0) return ak_fail(err, AK_EXIT_INPUT, "its shape is not a list of sizes");
        if (__builtin_mul_overflow(numel, dims[n] ? dims[n] : 1, &numel) || numel > INT64_MAX / 16)
            return ak_fail(err, AK_EXIT_INPUT, "its size overflows");
        n++;
    }
    *t = ak_tensor_new(t->dtype, n, dims);
    return 0;
}

static int read_range(const cJSON *o, struct range *r, struct ak_err *err) {
    const cJSON *list;
    if (ak_json_array(o, "data_offsets", &list, err)) return -1;
    if (cJSON_GetArraySize(list) != 2 || ak_json_as_i64(list->child, &r->from, err) || ak_json_as_i64(list->child->next, &r->to, err) ||
        r->from < 0 || r->to < r->from)
        return ak_fail(err, AK_EXIT_INPUT, "its data_offsets are not a range");
    return 0;
}

static int read_tensor(const cJSON *o, struct ak_tensor *t, struct range *r, int64_t room, struct ak_err *err) {
    const char *name;
    if (!cJSON_IsObject(o)) return ak_fail(err, AK_EXIT_INPUT, "it is no object");
    if (ak_json_str(o, "dtype", &name, err)) return -1;
    int dtype = ak_dtype_from_safetensors(name);
    if (dtype < 0) return ak_fail(err, AK_EXIT_INPUT, "its dtype '%s' is not one of those read", name);
    t->dtype = (enum ak_dtype)dtype;
    if (read_shape(o, t, err) || read_range(o, r, err)) return -1;
    if (r->to > room) return ak_fail(err, AK_EXIT_INPUT, "its bytes lie past the end of the file");
    if (r->to - r->from != ak_numel(t) * (int64_t)ak_dtype_size(t->dtype))
        return ak_fail(err, AK_EXIT_INPUT, "its shape wants %lld bytes, not %lld", (long long)ak_numel(t) * (long long)ak_dtype_size(t->dtype),
                       (long long)(r->to - r->from));
    return 0;
}

static int check_metadata(const cJSON *o, struct ak_err *err) {
    const cJSON *v;
    if (!cJSON_IsObject(o)) return ak_fail(err, AK_EXIT_INPUT, "__metadata__ is no object");
    cJSON_ArrayForEach(v, o) if (!cJSON_IsString(v)) return ak_fail(err, AK_EXIT_INPUT, "__metadata__ holds '%s', which is no string", v->string);
    return 0;
}

struct entry {
    struct ak_safetensor tensor;
    struct range range;
};

static int by_place(const void *a, const void *b) {
    const struct entry *p = a, *q = b;
    if (p->range.from != q->range.from) return p->range.from < q->range.from ? -1 : 1;
    return (p->range.to > q->range.to) - (p->range.to < q->range.to);
}

static int check_tiling(const struct entry *e, size_t n, int64_t room, struct ak_err *err) {
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (e[i].range.from != at)
            return ak_fail(err, AK_EXIT_INPUT, "tensor '%s' begins at byte %lld, not %lld: there is %s before it", e[i].tensor.name,
                           (long long)e[i].range.from, (long long)at, e[i].range.from < at ? "an overlap" : "a gap");
        at = e[i].range.to;
    }
    return at == room ? 0 : ak_fail(err, AK_EXIT_INPUT, "%lld bytes at the end belong to no tensor", (long long)(room - at));
}

/* In the map where the alignment allows, else a copy. */
static void place(struct ak_safetensors *s, struct ak_tensor *t, const uint8_t *p, const struct range *r) {
    size_t n = (size_t)(r->to - r->from);
    p += r->from;
    t->data = (void *)p;
    if ((uintptr_t)p % ak_dtype_size(t->dtype) == 0) return;
    t->data = ak_arena_alloc(&s->arena, n + 1);
    memcpy(t->data, p, n);
}

static int read_header(struct ak_safetensors *s, const cJSON *o, const uint8_t *data, int64_t room, struct ak_err *err) {
    struct entry *e = ak_malloc(((size_t)cJSON_GetArraySize(o) + 1) * sizeof *e);
    struct ak_names names = {0};
    const cJSON *v;
    size_t n = 0;
    int rc = 0;
    cJSON_ArrayForEach(v, o) {
        if ((rc = ak_names_add(&names, v->string, 0) ? ak_fail(err, AK_EXIT_INPUT, "'%s' is there twice (duplicate name)", v->string) : 0)) break;
        if (strcmp(v->string, "__metadata__") == 0) {
            if ((rc = check_metadata(v, err))) break;
            continue;
        }
        if ((rc = read_tensor(v, &e[n].tensor.t, &e[n].range, room, err))) {
            ak_fail_in(err, "tensor '%s'", v->string);
            break;
        }
        e[n++].tensor.name = ak_arena_strdup(&s->arena, v->string);
    }
    if (!rc) {
        qsort(e, n, sizeof *e, by_place);
        rc = check_tiling(e, n, room, err);
    }
    s->tensors = ak_arena_alloc(&s->arena, (n + 1) * sizeof *s->tensors);
    for (s->n = 0; s->n < n && !rc; s->n++) {
        s->tensors[s->n] = e[s->n].tensor;
        place(s, &s->tensors[s->n].t, data, &e[s->n].range);
    }
    ak_names_release(&names);
    free(e);
    return rc;
}

static uint64_t header_length(const uint8_t *p) {
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

int ak_safetensors_parse(struct ak_safetensors *s, const uint8_t *data, size_t size, const char *name, struct ak_err *err) {
    *s = (struct ak_safetensors){0};
    if (size < 8) return ak_fail(err, AK_EXIT_INPUT, "'%s' is not a safetensors file: it has %zu bytes", name, size);
    uint64_t n = header_length(data);
    if (n > size - 8 || n > MAX_HEADER)
        return ak_fail(err, AK_EXIT_INPUT, "'%s' is not a safetensors file: its header would have %llu bytes", name, (unsigned long long)n);
    if (n == 0 || data[8] != '{') return ak_fail(err, AK_EXIT_INPUT, "'%s' is not a safetensors file: its header is no JSON object", name);
    char *text = ak_malloc((size_t)n + 1);
    memcpy(text, data + 8, (size_t)n);
    text[n] = '\0';
    cJSON *o = ak_json_parse(text, (size_t)n, name, err);
    int rc = !o ? -1 : read_header(s, o, data + 8 + n, (int64_t)(size - 8 - n), err) ? ak_fail_in(err, "'%s'", name) : 0;
    cJSON_Delete(o);
    free(text);
    if (rc) ak_safetensors_close(s);
    return rc;
}

int ak_safetensors_open(struct ak_safetensors *s, const char *path, struct ak_err *err) {
    struct ak_map map;
    *s = (struct ak_safetensors){0};
    if (ak_map_open(&map, path, err)) return -1;
    if (ak_safetensors_parse(s, map.data, map.size, path, err)) {
        ak_map_close(&map);
        return -1;
    }
    s->map = map;
    return 0;
}

void ak_safetensors_close(struct ak_safetensors *s) {
    ak_map_close(&s->map);
    ak_arena_release(&s->arena);
    *s = (struct ak_safetensors){0};
}

const struct ak_tensor *ak_safetensors_find(const struct ak_safetensors *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return &s->tensors[i].t;
    return NULL;
}
