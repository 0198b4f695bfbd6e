/* ak: types reduce aten.mean.dim aten.sum.dim_IntList */
/* The opponent of a reduction over some dims. Where the last kept dim is contiguous whole rows are
 * combined, 256 columns at a time; else each output is a reduction of its own. Few outputs are cut
 * into parts for the threads. Sums run in float over at most 1024 elements, then in double. */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum op { SUM, MEAN, AMAX, AMIN, PROD };
enum { MAX_DIMS = 8, WIDTH = 256, RUN = 1024 };

enum kind { F32, F16, BF16, OTHER };

static enum kind kind_of(const DLTensor *t) {
    return ak_is_dtype(t, kDLFloat, 32) ? F32 : ak_is_dtype(t, kDLFloat, 16) ? F16 : ak_is_dtype(t, kDLBfloat, 16) ? BF16 : OTHER;
}

static const char *at(const void *p, enum kind kind, int64_t i) { return (const char *)p + i * (kind == F32 ? 4 : 2); }

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

/* Kept dims with strides in x and out, and reduced dims; neighbours merged, the last is innermost. */
struct dims {
    int n;
    int64_t size[MAX_DIMS], in[MAX_DIMS], out[MAX_DIMS];
};
struct problem {
    struct dims kept, reduced;
    enum op op;
    enum kind kind;
    int columns, parts;
    int64_t outputs, elements, tiles;
};

static void push(struct dims *d, int64_t size, int64_t in, int64_t out) {
    int last = d->n - 1;
    if (size == 1) return;
    if (d->n && d->in[last] == in * size && d->out[last] == out * size) {
        d->size[last] *= size, d->in[last] = in, d->out[last] = out;
        return;
    }
    d->size[d->n] = size, d->in[d->n] = in, d->out[d->n++] = out;
}

static int64_t product(const struct dims *d) {
    int64_t n = 1;
    for (int i = 0; i < d->n; i++)
        n *= d->size[i];
    return n;
}

static int is_reduced(const struct ak_call *call, const DLTensor *x, int dim) {
    if (strcmp(call->type, "reduce") == 0) return dim == 1;
    const struct ak_attr *a = ak_attr_find(call, "dim");
    if (!a || a->n == 0) return 1;
    for (int i = 0; i < a->n; i++)
        if (a->v.ints[i] == dim || a->v.ints[i] + x->ndim == dim) return 1;
    return 0;
}

static enum op op_of(const struct ak_call *call) {
    static const char *const names[] = {"sum", "mean", "amax", "amin", "prod"};
    if (strcmp(call->type, "aten.mean.dim") == 0) return MEAN;
    if (strcmp(call->type, "aten.sum.dim_IntList") == 0) return SUM;
    for (enum op op = SUM; op < PROD; op++)
        if (strcmp(ak_attr_enum(call, "op", "sum"), names[op]) == 0) return op;
    return PROD;
}

static int lay_out(const struct ak_call *call, struct problem *p) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    int keepdim = out->ndim == x->ndim, o = 0;
    *p = (struct problem){.op = op_of(call), .kind = kind_of(x), .parts = 1};
    if (p->kind == OTHER || kind_of(out) == OTHER || x->ndim > MAX_DIMS) return 0;
    for (int i = 0; i < x->ndim; i++) {
        int gone = is_reduced(call, x, i);
        if (gone)
            push(&p->reduced, x->shape[i], x->strides[i], 0);
        else
            push(&p->kept, x->shape[i], x->strides[i], out->strides[o]);
        if (keepdim || !gone) o++;
    }
    p->outputs = product(&p->kept);
    p->elements = product(&p->reduced);
    struct dims *k = &p->kept;
    if (p->reduced.n == 0) p->reduced = (struct dims){.n = 1, .size = {1}};
    p->columns = k->n && k->in[k->n - 1] == 1 && k->size[k->n - 1] > 1;
    int64_t width = p->columns ? k->size[k->n - 1] : 1, per_row = (width + WIDTH - 1) / WIDTH;
    p->tiles = width ? p->outputs / width * per_row : 0;
    if (p->tiles < omp_get_max_threads() && p->outputs * p->elements > 65536) p->parts = omp_get_max_threads();
    return 1;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct problem p;
    if (!lay_out(call, &p)) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){p.parts > 1 ? (size_t)p.parts * (size_t)p.outputs * sizeof(double) : 0, 0};
    return AK_OK;
}

static double start(enum op op) { return op == AMAX ? -INFINITY : op == AMIN ? INFINITY : op == PROD ? 1 : 0; }

static double join(enum op op, double a, double b) {
    switch (op) {
    case SUM:
    case MEAN: return a + b;
    case AMAX: return a > b || a != a ? a : b;
    case AMIN: return a < b || a != a ? a : b;
    case PROD: return a * b;
    }
    return b;
}

static double run(const float *x, int64_t n, enum op op) {
    float v = (float)start(op);
    int nan = 0;
    switch (op) {
    case SUM:
    case MEAN:
#pragma omp simd reduction(+ : v)
        for (int64_t i = 0; i < n; i++)
            v += x[i];
        return v;
    case AMAX:
#pragma omp simd reduction(max : v) reduction(| : nan)
        for (int64_t i = 0; i < n; i++)
            v = x[i] > v ? x[i] : v, nan |= x[i] != x[i];
        return nan ? NAN : v;
    case AMIN:
#pragma omp simd reduction(min : v) reduction(| : nan)
        for (int64_t i = 0; i < n; i++)
            v = x[i] < v ? x[i] : v, nan |= x[i] != x[i];
        return nan ? NAN : v;
    case PROD: {
        double d = 1;
#pragma omp simd reduction(* : d)
        for (int64_t i = 0; i < n; i++)
            d *= x[i];
        return d;
    }
    }
    return v;
}

/* n elements `step` apart as floats: where they lie, or in buf. */
static const float *load(const char *x, enum kind kind, int64_t step, int64_t n, float *buf) {
    if (kind == F32 && step == 1) return (const float *)x;
    if (step == 1)
        widen(buf, x, kind, n);
    else if (kind == F32)
        for (int64_t i = 0; i < n; i++)
            buf[i] = ((const float *)x)[i * step];
    else
        for (int64_t i = 0; i < n; i++)
            widen(buf + i, at(x, kind, i * step), kind, 1);
    return buf;
}

/* The offset of the k-th combination of the first `upto` dims. */
static int64_t offset(const struct dims *d, int upto, int64_t k, int out) {
    const int64_t *step = out ? d->out : d->in;
    int64_t o = 0;
    for (int i = upto - 1; i > 0; i--) {
        o += k % d->size[i] * step[i];
        k /= d->size[i];
    }
    return upto ? o + k * step[0] : 0;
}

/* A part of one output. */
static double one(const struct problem *p, const char *x, int64_t from, int64_t to) {
    const struct dims *r = &p->reduced;
    int last = r->n - 1;
    int64_t n = r->size[last];
    double v = start(p->op);
    float buf[RUN];
    if (last == 0 && to - from <= RUN) return run(load(at(x, p->kind, from * r->in[0]), p->kind, r->in[0], to - from, buf), to - from, p->op);
    for (int64_t i = from; i < to;) {
        int64_t at_i = i % n, len = n - at_i < to - i ? n - at_i : to - i;
        if (len > RUN) len = RUN;
        const char *row = at(x, p->kind, offset(r, last, i / n, 0) + at_i * r->in[last]);
        v = join(p->op, v, run(load(row, p->kind, r->in[last], len, buf), len, p->op));
        i += len;
    }
    return v;
}

static void combine(float *restrict acc, const float *restrict x, int64_t n, enum op op) {
    switch (op) {
    case SUM:
    case MEAN:
        for (int64_t i = 0; i < n; i++)
            acc[i] += x[i];
        break;
    case AMAX:
        for (int64_t i = 0; i < n; i++)
            acc[i] = acc[i] > x[i] || acc[i] != acc[i] ? acc[i] : x[i];
        break;
    case AMIN:
        for (int64_t i = 0; i < n; i++)
            acc[i] = acc[i] < x[i] || acc[i] != acc[i] ? acc[i] : x[i];
        break;
    case PROD: break;
    }
}

/* A part of `width` outputs side by side. */
static void tile(const struct problem *p, const char *x, int64_t width, int64_t from, int64_t to, double *total) {
    const struct dims *r = &p->reduced;
    int64_t n = r->size[r->n - 1], step = r->in[r->n - 1], most = p->op == PROD ? 1 : RUN;
    float acc[WIDTH], buf[WIDTH];
    for (int64_t w = 0; w < width; w++)
        total[w] = start(p->op);
    for (int64_t i = from; i < to;) {
        int64_t len = to - i < n - i % n ? to - i : n - i % n;
        if (len > most) len = most;
        const char *row = at(x, p->kind, offset(r, r->n, i, 0));
        memcpy(acc, load(row, p->kind, 1, width, buf), (size_t)width * sizeof *acc);
        for (int64_t k = 1; k < len; k++)
            combine(acc, load(at(row, p->kind, k * step), p->kind, 1, width, buf), width, p->op);
        for (int64_t w = 0; w < width; w++)
            total[w] = join(p->op, total[w], acc[w]);
        i += len;
    }
}

/* Outputs from column c of a row on: the parts joined, then stored. */
static void finish(const struct problem *p, const DLTensor *out, int64_t row, int64_t c, int64_t width, const double *part) {
    const struct dims *k = &p->kept;
    enum kind kind = kind_of(out);
    int64_t step = p->columns ? k->out[k->n - 1] : 0;
    char *to = (char *)at((char *)out->data + out->byte_offset, kind, offset(k, k->n - p->columns, row, 1) + c * step);
    for (int64_t i = 0; i < width; i++) {
        double v = part[i];
        for (int q = 1; q < p->parts; q++)
            v = join(p->op, v, part[q * p->outputs + i]);
        float f = (float)(p->op == MEAN ? v / (double)p->elements : v);
        if (kind == F32)
            ((float *)to)[i * step] = f;
        else
            narrow((char *)at(to, kind, i * step), &f, kind, 1);
    }
}

int ak_launch(const struct ak_call *call) {
    struct problem p;
    lay_out(call, &p);
    const DLTensor *out = ak_tensor_arg(call, 1);
    const struct dims *k = &p.kept;
    const char *x = ak_data(call, 0);
    int64_t length = p.columns ? k->size[k->n - 1] : 1, per_row = (length + WIDTH - 1) / WIDTH;
    double *parts = call->scratch;
#pragma omp parallel for if (p.outputs * p.elements > 16384)
    for (int64_t t = 0; t < p.tiles * p.parts; t++) {
        int64_t i = t / p.parts, q = t % p.parts, from = p.elements * q / p.parts, to = p.elements * (q + 1) / p.parts;
        int64_t row = i / per_row, c = i % per_row * WIDTH, width = length - c < WIDTH ? length - c : WIDTH;
        const char *xi = at(x, p.kind, offset(k, k->n - p.columns, row, 0) + c);
        double here[WIDTH], *total = p.parts > 1 ? parts + q * p.outputs + row * length + c : here;
        if (p.columns)
            tile(&p, xi, width, from, to, total);
        else
            *total = one(&p, xi, from, to);
        if (p.parts == 1) finish(&p, out, row, c, width, total);
    }
    for (int64_t i = 0; i < p.tiles && p.parts > 1; i++) {
        int64_t row = i / per_row, c = i % per_row * WIDTH;
        finish(&p, out, row, c, length - c < WIDTH ? length - c : WIDTH, parts + row * length + c);
    }
    return AK_OK;
}
