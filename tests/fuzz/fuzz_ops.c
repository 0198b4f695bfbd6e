/* Any bytes as a call of an op: what a hostile graph could ask for. Buffers have exactly the size
 * that extents say, so that a sanitizer sees a step outside. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "op.h"

#include "fuzz.h"

struct source {
    const uint8_t *p;
    size_t left;
    struct ak_arena arena;
    void *owned[256];
    size_t nowned;
};

static unsigned next(struct source *s) {
    if (!s->left) return 0;
    s->left--;
    return *s->p++;
}

static int64_t number(struct source *s) {
    static const int64_t awkward[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, 1LL << 31, -(1LL << 31), 1LL << 32, 1LL << 62, 65536, 1000, -1000};
    unsigned b = next(s);
    return b < 200 ? (int64_t)(b % 12) - 3 : awkward[b % (sizeof awkward / sizeof *awkward)];
}

static void *own(struct source *s, size_t bytes) {
    if (s->nowned == 256) return NULL;
    return s->owned[s->nowned++] = calloc(bytes ? bytes : 1, 1);
}

static const struct ak_tensor *tensor(struct source *s) {
    static const int64_t sizes[] = {1, 2, 3, 4, 2, 5, 7, 0};
    unsigned b = next(s);
    struct ak_tensor *t = ak_arena_alloc(&s->arena, sizeof *t);
    int64_t shape[5];
    int ndim = b % 11 < 10 ? (int)(b % 11) / 2 : 5;
    for (int i = 0; i < ndim; i++)
        shape[i] = sizes[next(s) % 8];
    *t = ak_tensor_new((enum ak_dtype)(b / 11 % 3 ? AK_F32 : b / 33 % AK_DTYPE_COUNT), ndim, shape);
    if (b / 11 % 3 == 2 && b & 1) t->dtype = AK_I64;
    unsigned layout = next(s);
    if (layout % 4 == 1 && ndim > 1) {
        int64_t size = t->shape[0], stride = t->stride[0];
        t->shape[0] = t->shape[ndim - 1];
        t->stride[0] = t->stride[ndim - 1];
        t->shape[ndim - 1] = size;
        t->stride[ndim - 1] = stride;
    }
    if (layout % 4 == 2 && ndim) t->stride[layout / 4 % (unsigned)ndim] = 0;
    if (layout % 8 == 3) t->offset = 3;
    size_t n = (size_t)ak_extent(t);
    t->data = own(s, n * ak_dtype_size(t->dtype));
    for (size_t i = 0; t->data && i < n; i++)
        ak_store(t->dtype, t->data, (int64_t)i, t->dtype == AK_BOOL ? (double)(i & 1) : (double)((int)(next(s) % 9) - 2));
    return t->data ? t : NULL;
}

static struct ak_val list(struct source *s, bool holes) {
    size_t n = next(s) % 5;
    const struct ak_tensor **v = ak_arena_alloc(&s->arena, (n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = holes && next(s) % 3 == 0 ? NULL : tensor(s);
    for (size_t i = 0; i < n; i++)
        if (!v[i] && !holes) n = i;
    return (struct ak_val){.kind = AK_VAL_TENSORS, .ts = {v, n}};
}

static struct ak_val ints(struct source *s) {
    size_t n = next(s) % 7;
    int64_t *v = ak_arena_alloc(&s->arena, (n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = number(s);
    return (struct ak_val){.kind = AK_VAL_INTS, .ints = {v, n}};
}

static struct ak_val floats(struct source *s) {
    size_t n = next(s) % 4;
    double *v = ak_arena_alloc(&s->arena, (n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (double)number(s) / 2;
    return (struct ak_val){.kind = AK_VAL_FLOATS, .floats = {v, n}};
}

static struct ak_val value(struct source *s, const struct ak_op_arg *a) {
    static const char *const words[] = {"none", "mean", "sum", "tanh", "floor", "trunc", "bilinear", "constant", "reflect", "ij,jk->ik", "bij,bjk->bik", ""};
    unsigned how = next(s) % 8;
    if (a->has_default && how < 4) return a->def;
    if (a->optional && how == 4) return (struct ak_val){.kind = AK_VAL_NONE};
    if (strncmp(a->type, "Tensor[", 7) == 0) return list(s, false);
    if (strncmp(a->type, "Tensor?[", 8) == 0) return list(s, true);
    if (strncmp(a->type, "Tensor", 6) == 0 && how != 5) return (struct ak_val){.kind = AK_VAL_TENSOR, .t = tensor(s)};
    if (strncmp(a->type, "int[", 4) == 0 || strncmp(a->type, "bool[", 5) == 0) return ints(s);
    if (strncmp(a->type, "float[", 6) == 0) return floats(s);
    if (strncmp(a->type, "ScalarType", 10) == 0) return (struct ak_val){.kind = AK_VAL_INT, .i = next(s) % AK_DTYPE_COUNT};
    if (strncmp(a->type, "str", 3) == 0) return (struct ak_val){.kind = AK_VAL_STR, .s = words[next(s) % (sizeof words / sizeof *words)]};
    if (strncmp(a->type, "float", 5) == 0 || how == 6) return (struct ak_val){.kind = AK_VAL_FLOAT, .f = (double)number(s) / 2};
    if (strncmp(a->type, "bool", 4) == 0) return (struct ak_val){.kind = AK_VAL_BOOL, .i = next(s) & 1};
    return (struct ak_val){.kind = AK_VAL_INT, .i = number(s)};
}

/* Work grows with the product of all sizes at most; 1 << 22 steps are a moment. */
static bool is_small(const struct ak_opcall *c) {
    double work = 1;
    for (size_t i = 0; i < c->nout; i++) {
        if (ak_extent(&c->out[i]) > 1 << 16 || ak_numel(&c->out[i]) > 1 << 16) return false;
        work += (double)ak_numel(&c->out[i]);
    }
    for (size_t i = 0; i < c->nin; i++)
        if (c->in[i].kind == AK_VAL_TENSOR) work *= 1 + (double)ak_numel(c->in[i].t) / 16;
    return work < 1 << 22;
}

static void call(struct source *s) {
    size_t which = next(s);
    struct ak_opcall c = {.op = ak_op_at((which | (size_t)next(s) << 8) % ak_op_count())};
    struct ak_err err;
    c.nin = c.op->nargs;
    for (size_t i = 0; i < c.nin; i++) {
        c.in[i] = value(s, &c.op->args[i]);
        if (c.in[i].kind == AK_VAL_TENSOR && !c.in[i].t) return;
    }
    if (ak_op_infer(&c, &err) || !is_small(&c)) return;
    for (size_t i = 0; i < c.nout; i++) {
        const struct ak_tensor *of = c.alias[i] ? c.in[c.alias[i] - 1].t : NULL;
        c.out[i].data = of ? of->data : own(s, (size_t)ak_extent(&c.out[i]) * ak_dtype_size(c.out[i].dtype));
        if (!c.out[i].data) return;
        if (of && of->dtype == c.out[i].dtype && ak_extent(&c.out[i]) > 0) /* a view that leads outside would be found here */
            (void)*(volatile char *)((char *)of->data + (size_t)(ak_extent(&c.out[i]) - 1) * ak_dtype_size(of->dtype));
    }
    ak_op_run(&c, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source s = {.p = data, .left = size};
    call(&s);
    for (size_t i = 0; i < s.nowned; i++)
        free(s.owned[i]);
    ak_arena_release(&s.arena);
    return 0;
}
