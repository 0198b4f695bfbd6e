/* The safetensors reader: files as others write them, and headers that lie. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static struct ak_err err;

/* A file of that header and room bytes of data, 0 1 2 3 ... */
static uint8_t *file_of(const char *header, size_t room, size_t *n) {
    size_t len = strlen(header);
    *n = 8 + len + room;
    uint8_t *p = malloc(*n + 1);
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(len >> 8 * i);
    memcpy(p + 8, header, len);
    for (size_t i = 0; i < room; i++)
        p[8 + len + i] = (uint8_t)i;
    return p;
}

static const struct {
    const char *header, *why, *what;
    size_t room;
} bad[] = {
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", "overflows", "a shape whose product wraps to 0", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     "'a' is there twice", "a name that is there twice", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[]}}", "tensor 'a'", "no offsets", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", "tensor 'a'", "one offset", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "tensor 'a'", "offsets the wrong way round", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "tensor 'a'", "a negative offset", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", "tensor 'a'", "an offset that is a string", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", "wants 4000000 bytes", "4 bytes for a large shape", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "past the end", "bytes past the end", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     "overlap", "ranges that overlap", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", "gap",
     "a gap", 12},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "no tensor", "bytes that belong to no tensor", 8},
    {"{\"a\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}", "'Q9'", "a dtype nobody knows", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "tensor 'a'", "a negative size", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "tensor 'a'", "a size that is no integer", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "dimensions", "nine dimensions", 4},
    {"{\"a\":[1]}", "tensor 'a'", "an entry that is no object", 0},
    {"{\"__metadata__\":{\"k\":1}}", "__metadata__", "metadata that is no string", 0},
    {"{\"a\":", "not JSON", "half a header", 0},
    {"[]", "no JSON object", "a header that is no object", 0},
};

static void refuses(void) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ak_safetensors s;
        size_t n;
        uint8_t *p = file_of(bad[i].header, bad[i].room, &n);
        int rc = ak_safetensors_parse(&s, p, n, "x.safetensors", &err);
        ok(rc && err.code == AK_EXIT_INPUT && strstr(err.msg, bad[i].why) && strstr(err.msg, "x.safetensors"), "refused: %s", bad[i].what);
        if (rc && !strstr(err.msg, bad[i].why)) printf("# %s\n", err.msg);
        free(p);
    }
    static const uint8_t lengths[][12] = {{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}, {0, 0, 0, 0, 0, 0, 0, 128, '{', '}'}, {10, 0, 0, 0, 0, 0, 0, 0, '{', '}'}};
    for (size_t i = 0; i < 3; i++) {
        struct ak_safetensors s;
        ok(ak_safetensors_parse(&s, lengths[i], 12, "x", &err) && strstr(err.msg, "header"), "refused: length of a header that is too large (%zu)", i);
    }
    struct ak_safetensors s;
    ok(ak_safetensors_parse(&s, lengths[0], 7, "x", &err), "refused: seven bytes");
}

static void reads(void) {
    struct ak_safetensors s;
    size_t n;
    uint8_t *p = file_of("{\"__metadata__\":{\"k\":\"v\"},\"b\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[4,12]},"
                         "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"e\":{\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[12,12]}}  ",
                         12, &n);
    ok(ak_safetensors_parse(&s, p, n, "x", &err) == 0, "rank 0, empty tensors, metadata and padding");
    const struct ak_tensor *b = ak_safetensors_find(&s, "b"), *a = ak_safetensors_find(&s, "a"), *e = ak_safetensors_find(&s, "e");
    ok(s.n == 3 && a && a->ndim == 0 && e && ak_numel(e) == 0, "all three are there");
    ok(b && b->dtype == AK_I16 && ak_get(b, 0) == 0x0504 && ak_get(b, 3) == 0x0b0a, "elements in order");
    ok((uintptr_t)b->data % 2 == 0 && (uintptr_t)a->data % 4 == 0, "data is aligned, even where the file is not");
    ok(!ak_safetensors_find(&s, "c"), "no tensor of another name");
    ak_safetensors_close(&s);
    free(p);
    ok(ak_safetensors_open(&s, "tests/models/hf_llama_tiny.safetensors", &err) == 0 && ak_safetensors_find(&s, "output.0"), "a recorded file");
    ak_safetensors_close(&s);
    ok(ak_safetensors_open(&s, "/nonexistent", &err) && strstr(err.msg, "'/nonexistent'"), "a file that is not there is named");
}

int main(void) {
    refuses();
    reads();
    return done();
}
