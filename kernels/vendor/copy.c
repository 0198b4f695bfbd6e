/* ak: types aten.clone.default aten.contiguous.default aten.reshape.default aten.view.default aten.flatten.using_ints aten.to.dtype aten.to.dtype_layout aten._to_copy.default aten.cat.default */
/* Copies between layouts and element types. Where shapes differ (reshape) the elements go in
 * row-major order, and out is row-major. A transposition goes by tiles that stay in cache. */
#include <omp.h>

#include "ak_kernel.h"

enum { OUT, IN, OPERANDS };
enum { MAX_DIMS = 8, RUN = 1024, TILE = 16, PARALLEL_FROM = 32768 };

enum kind { F32, F16, BF16, F64, I64, I32, I16, I8, U8, BOOL, OTHER };

static enum kind kind_of(const DLTensor *t) {
    static const struct {
        int code, bits;
    } of[] = {[F32] = {kDLFloat, 32}, [F16] = {kDLFloat, 16}, [BF16] = {kDLBfloat, 16}, [F64] = {kDLFloat, 64}, [I64] = {kDLInt, 64},
              [I32] = {kDLInt, 32},   [I16] = {kDLInt, 16},   [I8] = {kDLInt, 8},       [U8] = {kDLUInt, 8},    [BOOL] = {AK_DL_BOOL, 8}};
    for (enum kind k = F32; k < OTHER; k++)
        if (ak_is_dtype(t, of[k].code, of[k].bits)) return k;
    return OTHER;
}

/* gcc 12 makes no vectors of conversions from and to _Float16. */
#if defined __F16C__ && defined __GNUC__ && !defined __clang__
typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias));
#define WIDEN8(h) __builtin_ia32_vcvtph2ps256(h)
#define NARROW8(f) __builtin_ia32_vcvtps2ph256(f, 4)
#endif

static void widen(float *to, const char *from, enum kind kind, int64_t n) {
    int64_t i = 0;
    if (kind == F32) memcpy(to, from, (size_t)n * sizeof *to);
    if (kind == BF16)
        for (; i < n; i++)
            ((uint32_t *)to)[i] = (uint32_t)((const uint16_t *)from)[i] << 16;
    if (kind != F16) return;
#ifdef WIDEN8
    for (; i + 8 <= n; i += 8)
        *(f8 *)(to + i) = WIDEN8(*(const h8 *)(from + 2 * i));
#endif
    for (; i < n; i++)
        to[i] = ((const _Float16 *)from)[i];
}

static void narrow(char *to, const float *from, enum kind kind, int64_t n) {
    int64_t i = 0;
    if (kind == BF16)
        for (; i < n; i++) {
            uint32_t u = ((const uint32_t *)from)[i];
            ((uint16_t *)to)[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
        }
    if (kind != F16) return;
#ifdef NARROW8
    for (; i + 8 <= n; i += 8)
        *(h8 *)(to + 2 * i) = NARROW8(*(const f8 *)(from + i));
#endif
    for (; i < n; i++)
        ((_Float16 *)to)[i] = (_Float16)from[i];
}

/* All operands over out's dims, broadcast, out's largest stride first, neighbours merged.
 * Operand 0 is out. */
struct walk {
    int n;
    int64_t size[MAX_DIMS], step[OPERANDS][MAX_DIMS], rows, length;
};

static int64_t step_of(const DLTensor *t, const DLTensor *out, int dim) {
    int i = t ? dim - out->ndim + t->ndim : -1;
    return i < 0 || t->shape[i] == 1 ? 0 : t->strides[i];
}

static void push(struct walk *w, int64_t size, const int64_t step[OPERANDS]) {
    int merge = w->n > 0;
    for (int k = 0; k < OPERANDS && merge; k++)
        merge = w->step[k][w->n - 1] == step[k] * size;
    if (!merge) w->n++;
    w->size[w->n - 1] = merge ? w->size[w->n - 1] * size : size;
    for (int k = 0; k < OPERANDS; k++)
        w->step[k][w->n - 1] = step[k];
}

/* Rows are what the cursor steps over, all dims but the last. */
static struct walk walk_over(const DLTensor *const t[OPERANDS]) {
    struct walk w = {0};
    int order[MAX_DIMS], n = t[0]->ndim;
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && t[0]->strides[order[k - 1]] < t[0]->strides[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        int64_t step[OPERANDS];
        if (t[0]->shape[order[i]] == 1) continue;
        for (int k = 0; k < OPERANDS; k++)
            step[k] = step_of(t[k], t[0], order[i]);
        push(&w, t[0]->shape[order[i]], step);
    }
    if (w.n == 0) push(&w, 1, (const int64_t[OPERANDS]){0});
    w.length = w.size[w.n - 1];
    w.rows = 1;
    for (int i = 0; i < w.n - 1; i++)
        w.rows *= w.size[i];
    return w;
}

struct cursor {
    int64_t at[MAX_DIMS], offset[OPERANDS];
};

static void seek(struct cursor *c, const struct walk *w, int64_t row) {
    *c = (struct cursor){0};
    for (int i = w->n - 2; i >= 0; i--) {
        c->at[i] = row % w->size[i];
        row /= w->size[i];
        for (int k = 0; k < OPERANDS; k++)
            c->offset[k] += c->at[i] * w->step[k][i];
    }
}

static void next_row(struct cursor *c, const struct walk *w) {
    for (int i = w->n - 2; i >= 0; i--) {
        int64_t by = ++c->at[i] < w->size[i] ? 1 : 1 - w->size[i];
        for (int k = 0; k < OPERANDS; k++)
            c->offset[k] += by * w->step[k][i];
        if (by == 1) return;
        c->at[i] = 0;
    }
}

static int same_shape(const DLTensor *a, const DLTensor *b) {
    if (a->ndim != b->ndim) return 0;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return 0;
    return 1;
}

static int row_major(const DLTensor *t) {
    int64_t n = 1;
    for (int i = t->ndim - 1; i >= 0; n *= t->shape[i], i--)
        if (t->shape[i] != 1 && t->strides[i] != n) return 0;
    return 1;
}

static int64_t count(const DLTensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

/* An operand of cat that PyTorch skips: one dim, no elements. */
static int skipped(const DLTensor *t) { return t->ndim == 1 && t->shape[0] == 0; }

static int cat_ok(const struct ak_call *call, const DLTensor *out) {
    int64_t dim = ak_attr_int(call, "dim", 0);
    if (dim + out->ndim < 0 || dim >= out->ndim) return 0;
    for (uint32_t i = 0; i + 1 < call->nargs; i++) {
        const DLTensor *t = ak_tensor_arg(call, i);
        if (!t || kind_of(t) != kind_of(out) || (t->ndim != out->ndim && !skipped(t))) return 0;
    }
    return 1;
}

/* Between floats by way of float, between integers by way of int64, from one to the other by both. */
static int convertible(enum kind from, enum kind to) { return from == to || (from != F64 && to != F64); }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *out = ak_tensor_arg(call, call->nargs - 1), *in = ak_tensor_arg(call, 0);
    *needs = (struct ak_needs){0, 0};
    if (!out || kind_of(out) == OTHER || out->ndim > MAX_DIMS) return AK_UNSUPPORTED;
    if (strcmp(call->type, "aten.cat.default") == 0) return cat_ok(call, out) ? AK_OK : AK_UNSUPPORTED;
    if (!in || call->nargs != 2 || kind_of(in) == OTHER || in->ndim > MAX_DIMS || !convertible(kind_of(in), kind_of(out))) return AK_UNSUPPORTED;
    return same_shape(in, out) || (row_major(out) && count(in) == count(out)) ? AK_OK : AK_UNSUPPORTED;
}

/* ---- one row ---- */

static int is_float(enum kind k) { return k <= F64; }

static void load_ints(int64_t *v, const char *p, enum kind kind, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        switch (kind) {
        case I64: v[i] = ((const int64_t *)p)[i * step]; break;
        case I32: v[i] = ((const int32_t *)p)[i * step]; break;
        case I16: v[i] = ((const int16_t *)p)[i * step]; break;
        case I8: v[i] = ((const int8_t *)p)[i * step]; break;
        default: v[i] = ((const uint8_t *)p)[i * step];
        }
}

static void store_ints(char *p, const int64_t *v, enum kind kind, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        switch (kind) {
        case I64: ((int64_t *)p)[i * step] = v[i]; break;
        case I32: ((int32_t *)p)[i * step] = (int32_t)v[i]; break;
        case I16: ((int16_t *)p)[i * step] = (int16_t)v[i]; break;
        case I8: ((int8_t *)p)[i * step] = (int8_t)v[i]; break;
        case BOOL: ((uint8_t *)p)[i * step] = v[i] != 0; break;
        default: ((uint8_t *)p)[i * step] = (uint8_t)v[i];
        }
}

static int64_t item(enum kind k) { return k == F64 || k == I64 ? 8 : k == F32 || k == I32 ? 4 : k == F16 || k == BF16 || k == I16 ? 2 : 1; }

static const char *at(const void *p, enum kind kind, int64_t i) { return (const char *)p + i * item(kind); }

static const float *load_floats(float *v, const char *p, enum kind kind, int64_t step, int64_t n) {
    if (kind == F32 && step == 1) return (const float *)p;
    if (step == 1)
        widen(v, p, kind, n);
    else
        for (int64_t i = 0; i < n; i++)
            widen(v + i, at(p, kind, i * step), kind, 1);
    return v;
}

static void store_floats(char *p, const float *v, enum kind kind, int64_t step, int64_t n) {
    if (kind == F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)p)[i * step] = v[i];
    else if (step == 1)
        narrow(p, v, kind, n);
    else
        for (int64_t i = 0; i < n; i++)
            narrow((char *)at(p, kind, i * step), v + i, kind, 1);
}

/* At most RUN elements, from one kind to another. */
static void convert(char *to, enum kind kt, int64_t st, const char *from, enum kind kf, int64_t sf, int64_t n) {
    float wide[RUN];
    int64_t ints[RUN];
    if (is_float(kf)) {
        const float *v = load_floats(wide, from, kf, sf, n);
        if (is_float(kt)) {
            store_floats(to, v, kt, st, n);
            return;
        }
        for (int64_t i = 0; i < n; i++)
            ints[i] = kt == BOOL ? v[i] != 0 : (int64_t)v[i];
        store_ints(to, ints, kt, st, n);
        return;
    }
    load_ints(ints, from, kf, sf, n);
    if (!is_float(kt)) {
        store_ints(to, ints, kt, st, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        wide[i] = (float)ints[i];
    store_floats(to, wide, kt, st, n);
}

/* `rows` rows of n elements, tr and fr apart. */
#define MOVE(type)                                                                                                                        \
    static void move_##type(type *restrict to, int64_t tr, int64_t st, const type *restrict from, int64_t fr, int64_t sf, int64_t rows, int64_t n) { \
        for (int64_t r = 0; r < rows; r++)                                                                                                \
            for (int64_t i = 0; i < n; i++)                                                                                               \
                to[r * tr + i * st] = from[r * fr + i * sf];                                                                              \
    }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)

static void move(char *to, int64_t tr, int64_t st, const char *from, int64_t fr, int64_t sf, int64_t rows, int64_t n, int64_t size) {
    if (st == 1 && sf == 1 && rows == 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 1)
        move_uint8_t((uint8_t *)to, tr, st, (const uint8_t *)from, fr, sf, rows, n);
    else if (size == 2)
        move_uint16_t((uint16_t *)to, tr, st, (const uint16_t *)from, fr, sf, rows, n);
    else if (size == 4)
        move_uint32_t((uint32_t *)to, tr, st, (const uint32_t *)from, fr, sf, rows, n);
    else
        move_uint64_t((uint64_t *)to, tr, st, (const uint64_t *)from, fr, sf, rows, n);
}

/* ---- all rows ---- */

struct job {
    struct walk w;
    char *to;
    const char *from;
    enum kind kt, kf;
};

static void span(const struct job *j, const struct cursor *c, int64_t from, int64_t n) {
    int64_t st = j->w.step[OUT][j->w.n - 1], sf = j->w.step[IN][j->w.n - 1];
    char *to = (char *)at(j->to, j->kt, c->offset[OUT] + from * st);
    const char *src = at(j->from, j->kf, c->offset[IN] + from * sf);
    if (j->kt == j->kf)
        move(to, 0, st, src, 0, sf, 1, n, item(j->kt));
    else
        convert(to, j->kt, st, src, j->kf, sf, n);
}

/* The dim along which `in` is contiguous becomes the second last, so that a row of tiles is the
 * last two dims; 0 if there is none such. */
static int transposes(struct walk *w) {
    if (w->step[IN][w->n - 1] == 1) return 0;
    for (int i = 0; i < w->n - 1; i++) {
        if (w->step[IN][i] != 1) continue;
        int last = w->n - 2;
        for (int k = 0; k < OPERANDS; k++) {
            int64_t s = w->step[k][i];
            for (int d = i; d < last; d++)
                w->step[k][d] = w->step[k][d + 1];
            w->step[k][last] = s;
        }
        int64_t size = w->size[i];
        for (int d = i; d < last; d++)
            w->size[d] = w->size[d + 1];
        w->size[last] = size;
        return 1;
    }
    return 0;
}

/* Rows r to r + rows, elements i to i + n of the plane that the cursor is at. */
static void tile(const struct job *j, const struct cursor *c, int64_t r, int64_t rows, int64_t i, int64_t n) {
    const int64_t *to = j->w.step[OUT] + j->w.n - 2, *from = j->w.step[IN] + j->w.n - 2;
    if (j->kt == j->kf) {
        move((char *)at(j->to, j->kt, c->offset[OUT] + r * to[0] + i * to[1]), to[0], to[1], at(j->from, j->kf, c->offset[IN] + r * from[0] + i * from[1]), 1,
             from[1], rows, n, item(j->kt));
        return;
    }
    for (int64_t k = r; k < r + rows; k++) {
        struct cursor here = *c;
        here.offset[OUT] += k * to[0];
        here.offset[IN] += k * from[0];
        span(j, &here, i, n);
    }
}

static void transpose(const struct job *j) {
    struct walk outer = j->w; /* its rows are whole planes */
    int last = j->w.n - 1;
    int64_t rows = j->w.size[last - 1], length = j->w.size[last], down = (rows + TILE - 1) / TILE;
    outer.n--;
    int64_t planes = j->w.rows / (rows ? rows : 1);
#pragma omp parallel for if (planes * rows * length > PARALLEL_FROM)
    for (int64_t t = 0; t < planes * down; t++) {
        struct cursor c;
        seek(&c, &outer, t / down);
        int64_t r = t % down * TILE, high = r + TILE < rows ? TILE : rows - r;
        for (int64_t i = 0; i < length; i += TILE)
            tile(j, &c, r, high, i, i + TILE < length ? TILE : length - i);
    }
}

static void copy(const DLTensor *to, const DLTensor *from) {
    const DLTensor *t[OPERANDS] = {to, from};
    struct job j = {.w = walk_over(t), .to = (char *)to->data + to->byte_offset, .from = (const char *)from->data + from->byte_offset};
    j.kt = kind_of(to);
    j.kf = kind_of(from);
    if (transposes(&j.w)) {
        transpose(&j);
        return;
    }
    int64_t per_row = (j.w.length + RUN - 1) / RUN, tasks = j.w.rows * per_row;
#pragma omp parallel if (j.w.rows * j.w.length > PARALLEL_FROM)
    {
        int64_t n = omp_get_num_threads(), me = omp_get_thread_num(), last = tasks * (me + 1) / n;
        struct cursor c;
        for (int64_t i = tasks * me / n, part = -1; i < last; i++, part++) {
            if (part < 0) {
                part = i % per_row;
                seek(&c, &j.w, i / per_row);
            } else if (part == per_row) {
                part = 0;
                next_row(&c, &j.w);
            }
            span(&j, &c, part * RUN, part * RUN + RUN < j.w.length ? RUN : j.w.length - part * RUN);
        }
    }
}

static void cat(const struct ak_call *call, const DLTensor *out) {
    int64_t dim = ak_attr_int(call, "dim", 0), done = 0;
    if (dim < 0) dim += out->ndim;
    for (uint32_t i = 0; i + 1 < call->nargs; i++) {
        const DLTensor *in = ak_tensor_arg(call, i);
        if (skipped(in)) continue;
        DLTensor part = *out;
        part.shape = in->shape;
        part.byte_offset += (uint64_t)(done * out->strides[dim] * item(kind_of(out)));
        done += in->shape[dim];
        copy(&part, in);
    }
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *out = ak_tensor_arg(call, call->nargs - 1), *in = ak_tensor_arg(call, 0);
    if (strcmp(call->type, "aten.cat.default") == 0) {
        cat(call, out);
        return AK_OK;
    }
    if (same_shape(in, out)) {
        copy(out, in);
        return AK_OK;
    }
    /* row-major order: out takes in's shape */
    int64_t strides[MAX_DIMS], n = 1;
    DLTensor as_in = *out;
    for (int i = in->ndim - 1; i >= 0; n *= in->shape[i], i--)
        strides[i] = n;
    as_in.ndim = in->ndim;
    as_in.shape = in->shape;
    as_in.strides = strides;
    copy(&as_in, in);
    return AK_OK;
}
