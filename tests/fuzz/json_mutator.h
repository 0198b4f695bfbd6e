/* libFuzzer's mutations for JSON: subtrees are copied over others, numbers become awkward ones,
 * strings become others of the text or names of ops. With -DFUZZ_MUTATE (tests/fuzz/run.sh). */
#ifndef JSON_MUTATOR_H
#define JSON_MUTATOR_H
#ifdef FUZZ_MUTATE

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "op.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

enum { MUTATOR_MAX = 20000 };
struct mutator {
    cJSON *items[MUTATOR_MAX];
    size_t n;
    uint64_t state;
};

static size_t pick(struct mutator *m, size_t n) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(m->state >> 33) % (n ? n : 1);
}

static void collect(struct mutator *m, cJSON *v) {
    for (; v && m->n < MUTATOR_MAX; v = v->next) {
        m->items[m->n++] = v;
        collect(m, v->child);
    }
}

/* What an item is, but not its key or its place. */
static void become(cJSON *item, cJSON *copy) {
    if (!copy) return;
    cJSON *child = item->child;
    char *text = item->valuestring;
    item->type = (item->type & cJSON_StringIsConst) | (copy->type & ~cJSON_StringIsConst);
    item->child = copy->child;
    item->valuestring = copy->valuestring;
    item->valueint = copy->valueint;
    item->valuedouble = copy->valuedouble;
    copy->child = child;
    copy->valuestring = text;
    cJSON_Delete(copy);
}

static void mutate_number(struct mutator *m, cJSON *v) {
    static const double numbers[] = {0, 1, -1, 2, 3, 4, 5, 7, 8, 9, 16, 64, -2, -3, 100, 255, 4096, 65536, 1e6, 2147483647, 2147483648, 4294967296,
                                     1e15, 9007199254740993, 9223372036854775807., -9223372036854775808., 1e300, 0.5, -0.5};
    cJSON_SetNumberValue(v, numbers[pick(m, sizeof numbers / sizeof *numbers)]);
}

static void mutate_string(struct mutator *m, cJSON *v) {
    char name[256];
    if (pick(m, 2)) {
        const char *op = ak_op_at(pick(m, ak_op_count()))->name;
        snprintf(name, sizeof name, "%s%s", strncmp(v->valuestring, "torch.ops.", 10) == 0 ? "torch.ops." : "", op);
        become(v, cJSON_CreateString(name));
        return;
    }
    for (int tries = 0; tries < 20; tries++) {
        const cJSON *other = m->items[pick(m, m->n)];
        if (cJSON_IsString(other)) {
            become(v, cJSON_CreateString(other->valuestring));
            return;
        }
        if (other->string && pick(m, 4) == 0) {
            become(v, cJSON_CreateString(other->string));
            return;
        }
    }
}

static void mutate_list(struct mutator *m, cJSON *v) {
    int n = cJSON_GetArraySize(v);
    if (n && pick(m, 2))
        cJSON_DeleteItemFromArray(v, (int)pick(m, (size_t)n));
    else
        cJSON_AddItemToArray(v, n && pick(m, 2) ? cJSON_Duplicate(cJSON_GetArrayItem(v, (int)pick(m, (size_t)n)), true)
                                                : cJSON_Duplicate(m->items[pick(m, m->n)], true));
}

static void mutate_tree(struct mutator *m, cJSON *o) {
    m->n = 0;
    collect(m, o);
    cJSON *v = m->items[pick(m, m->n)];
    if (cJSON_IsNumber(v) && pick(m, 4))
        mutate_number(m, v);
    else if (cJSON_IsString(v) && pick(m, 4))
        mutate_string(m, v);
    else if (cJSON_IsArray(v) && pick(m, 2))
        mutate_list(m, v);
    else if (v != o)
        become(v, cJSON_Duplicate(m->items[pick(m, m->n)], true));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    static struct mutator m;
    m.state = seed;
    if (pick(&m, 8) == 0) return LLVMFuzzerMutate(data, size, max);
    /* fuzz_pt2.c keeps two texts with a NUL between */
    const uint8_t *nul = memchr(data, 0, size);
    size_t first = nul ? (size_t)(nul - data) : size, from = nul && pick(&m, 4) == 0 ? first + 1 : 0, to = from ? size : first;
    char *text = malloc(to - from + 1);
    memcpy(text, data + from, to - from);
    text[to - from] = '\0';
    cJSON *o = cJSON_Parse(text);
    free(text);
    if (!o) return LLVMFuzzerMutate(data, size, max);
    for (size_t edits = 1 + pick(&m, 3); edits; edits--)
        mutate_tree(&m, o);
    char *out = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    size_t len = out ? strlen(out) : 0, rest = size - to;
    if (out && from + len + rest <= max) {
        memmove(data + from + len, data + to, rest);
        memcpy(data + from, out, len);
        size = from + len + rest;
    }
    cJSON_free(out);
    return size;
}

#endif
#endif
