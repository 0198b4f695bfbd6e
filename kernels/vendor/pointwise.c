/* ak: types aten.add.Tensor aten.add.Scalar aten.sub.Tensor aten.sub.Scalar aten.rsub.Scalar aten.mul.Tensor aten.mul.Scalar aten.div.Tensor aten.div.Scalar aten.maximum.default aten.minimum.default aten.pow.Tensor_Scalar aten.silu.default aten.gelu.default aten.relu.default aten.tanh.default aten.sigmoid.default aten.exp.default aten.log.default aten.neg.default aten.reciprocal.default aten.rsqrt.default aten.sqrt.default aten.square.default aten.cos.default aten.sin.default aten.erf.default aten.abs.default aten.clamp.default aten.clamp_min.default aten.clamp_max.default aten.hardtanh.default aten.hardswish.default aten.hardsigmoid.default aten.leaky_relu.default aten.elu.default aten.softplus.default aten.mish.default */
/* Elementwise ops in single precision: one loop an op over at most 1024 floats at a time, which
 * lie in the tensors themselves where these are f32 and contiguous, else in buffers in cache. */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { OUT, SELF, OTHER_ARG, OPERANDS };
enum { MAX_DIMS = 8, RUN = 1024, PARALLEL_FROM = 32768 };

/* What glibc says of libmvec to -ffast-math alone: these have vector forms, NaN and infinities included. */
#if defined __x86_64__ && defined __GLIBC__ && __GLIBC_PREREQ(2, 35)
#pragma omp declare simd notinbranch
float expf(float);
#pragma omp declare simd notinbranch
float logf(float);
#pragma omp declare simd notinbranch
float erff(float);
#pragma omp declare simd notinbranch
float tanhf(float);
#pragma omp declare simd notinbranch
float cosf(float);
#pragma omp declare simd notinbranch
float sinf(float);
#pragma omp declare simd notinbranch
float powf(float, float);
#pragma omp declare simd notinbranch
float expm1f(float);
#pragma omp declare simd notinbranch
float log1pf(float);
#endif
enum kind { F32, F16, BF16, I64, I32, U8, OTHER }; /* U8: bool too */

static enum kind kind_of(const DLTensor *t) {
    if (ak_is_dtype(t, kDLInt, 64)) return I64;
    if (ak_is_dtype(t, kDLInt, 32)) return I32;
    if (ak_is_dtype(t, kDLUInt, 8) || ak_is_dtype(t, AK_DL_BOOL, 8)) return U8;
    return ak_is_dtype(t, kDLFloat, 32) ? F32 : ak_is_dtype(t, kDLFloat, 16) ? F16 : ak_is_dtype(t, kDLBfloat, 16) ? BF16 : OTHER;
}

static const char *at(const void *p, enum kind kind, int64_t i) {
    return (const char *)p + i * (kind == I64 ? 8 : kind == F32 || kind == I32 ? 4 : kind == U8 ? 1 : 2);
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

/* n elements `step` apart as floats: where they lie, or in buf. */
static const float *load(const char *x, enum kind kind, int64_t step, int64_t n, float *buf) {
    if (kind == F32 && step == 1) return (const float *)x;
    if (step == 1 && (kind == F16 || kind == BF16)) {
        widen(buf, x, kind, n);
        return buf;
    }
    if (step == 0 && n > 1) {
        const float v = *load(x, kind, 1, 1, buf);
        for (int64_t i = 0; i < n; i++)
            buf[i] = v;
        return buf;
    }
    for (int64_t i = 0; i < n; i++)
        switch (kind) {
        case F32: buf[i] = ((const float *)x)[i * step]; break;
        case I64: buf[i] = (float)((const int64_t *)x)[i * step]; break;
        case I32: buf[i] = (float)((const int32_t *)x)[i * step]; break;
        case U8: buf[i] = ((const uint8_t *)x)[i * step]; break;
        default: widen(buf + i, at(x, kind, i * step), kind, 1);
        }
    return buf;
}

static void store(char *to, const float *from, enum kind kind, int64_t step, int64_t n) {
    if (kind != F32 && step == 1) {
        narrow(to, from, kind, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (kind == F32)
            ((float *)to)[i * step] = from[i];
        else
            narrow((char *)at(to, kind, i * step), from + i, kind, 1);
}

/* ---- the ops: x and y are elements, p what the op's attributes say ---- */

#define UNARY(name, expr)                                                                                                    \
    static void name(float *restrict o, const float *restrict a, const float *restrict b, int64_t n, const float *p) {     \
        const float p0 = p[0], p1 = p[1], p2 = p[2];                                                                         \
        (void)b, (void)p0, (void)p1, (void)p2;                                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                                \
            const float x = a[i];                                                                                            \
            o[i] = (expr);                                                                                                   \
        }                                                                                                                    \
    }
#define BINARY(name, expr)                                                                                                   \
    static void name(float *restrict o, const float *restrict a, const float *restrict b, int64_t n, const float *p) {     \
        const float p0 = p[0];                                                                                               \
        (void)p0;                                                                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                                \
            const float x = a[i], y = b[i];                                                                                  \
            o[i] = (expr);                                                                                                   \
        }                                                                                                                    \
    }

static inline float bound(float x, float lo, float hi) {
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

BINARY(add, x + p0 * y)
BINARY(sub, x - p0 * y)
BINARY(rsub, y - p0 * x)
BINARY(mul, x * y)
BINARY(divide, x / y)
BINARY(larger, x > y || x != x ? x : y)
BINARY(smaller, x < y || x != x ? x : y)
UNARY(square, x * x)
UNARY(cube, x * x * x)
UNARY(power, powf(x, p0))
UNARY(silu, x / (1 + expf(-x)))
UNARY(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)))
UNARY(gelu_tanh, 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x))))
UNARY(relu, x < 0 ? 0 : x)
UNARY(tangent, tanhf(x))
UNARY(sigmoid, 1 / (1 + expf(-x)))
UNARY(exponential, expf(x))
UNARY(logarithm, logf(x))
UNARY(negate, -x)
UNARY(reciprocal, 1 / x)
UNARY(rsqrt, 1 / sqrtf(x))
UNARY(root, sqrtf(x))
UNARY(cosine, cosf(x))
UNARY(sine, sinf(x))
UNARY(error, erff(x))
UNARY(absolute, fabsf(x))
UNARY(clamp, bound(x, p0, p1))
UNARY(hardswish, x * bound(x + 3, 0, 6) / 6)
UNARY(hardsigmoid, bound(x + 3, 0, 6) / 6)
UNARY(leaky_relu, x > 0 ? x : x * p0)
UNARY(elu, x > 0 ? x * p1 : expm1f(x * p2) * p0 * p1)
UNARY(softplus, x * p0 > p1 ? x : log1pf(expf(x * p0)) / p0)
UNARY(mish, x * tanhf(x > 20 ? x : log1pf(expf(x))))

typedef void op_fn(float *, const float *, const float *, int64_t, const float *);

static const struct op {
    const char *name;
    op_fn *fn;
    int binary;
    struct {
        const char *name;
        float otherwise;
    } attrs[3];
} ops[] = {
    {"aten.add.Tensor", add, 1, {{"alpha", 1}}},
    {"aten.add.Scalar", add, 1, {{"alpha", 1}}},
    {"aten.sub.Tensor", sub, 1, {{"alpha", 1}}},
    {"aten.sub.Scalar", sub, 1, {{"alpha", 1}}},
    {"aten.rsub.Scalar", rsub, 1, {{"alpha", 1}}},
    {"aten.mul.Tensor", mul, 1, {{0}}},
    {"aten.mul.Scalar", mul, 1, {{0}}},
    {"aten.div.Tensor", divide, 1, {{0}}},
    {"aten.div.Scalar", divide, 1, {{0}}},
    {"aten.maximum.default", larger, 1, {{0}}},
    {"aten.minimum.default", smaller, 1, {{0}}},
    {"aten.pow.Tensor_Scalar", power, 0, {{"exponent", 1}}},
    {"aten.silu.default", silu, 0, {{0}}},
    {"aten.gelu.default", gelu, 0, {{0}}},
    {"aten.relu.default", relu, 0, {{0}}},
    {"aten.tanh.default", tangent, 0, {{0}}},
    {"aten.sigmoid.default", sigmoid, 0, {{0}}},
    {"aten.exp.default", exponential, 0, {{0}}},
    {"aten.log.default", logarithm, 0, {{0}}},
    {"aten.neg.default", negate, 0, {{0}}},
    {"aten.reciprocal.default", reciprocal, 0, {{0}}},
    {"aten.rsqrt.default", rsqrt, 0, {{0}}},
    {"aten.sqrt.default", root, 0, {{0}}},
    {"aten.square.default", square, 0, {{0}}},
    {"aten.cos.default", cosine, 0, {{0}}},
    {"aten.sin.default", sine, 0, {{0}}},
    {"aten.erf.default", error, 0, {{0}}},
    {"aten.abs.default", absolute, 0, {{0}}},
    {"aten.clamp.default", clamp, 0, {{"min", -INFINITY}, {"max", INFINITY}}},
    {"aten.clamp_min.default", clamp, 0, {{"min", -INFINITY}, {"", INFINITY}}},
    {"aten.clamp_max.default", clamp, 0, {{"", -INFINITY}, {"max", INFINITY}}},
    {"aten.hardtanh.default", clamp, 0, {{"min_val", -1}, {"max_val", 1}}},
    {"aten.hardswish.default", hardswish, 0, {{0}}},
    {"aten.hardsigmoid.default", hardsigmoid, 0, {{0}}},
    {"aten.leaky_relu.default", leaky_relu, 0, {{"negative_slope", 0.01f}}},
    {"aten.elu.default", elu, 0, {{"alpha", 1}, {"scale", 1}, {"input_scale", 1}}},
    {"aten.softplus.default", softplus, 0, {{"beta", 1}, {"threshold", 20}}},
    {"aten.mish.default", mish, 0, {{0}}},
};

static const struct op *op_find(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    return NULL;
}

/* A Scalar may come as an integer or as a real. */
static float number(const struct ak_call *call, const char *name, float otherwise) {
    const struct ak_attr *a = name ? ak_attr_find(call, name) : NULL;
    return !a ? otherwise : a->type == AK_ATTR_REAL ? (float)a->v.f : (float)a->v.i;
}

static op_fn *choose(const struct op *op, const struct ak_call *call) {
    float e = number(call, "exponent", 1);
    if (op->fn == power && (e == 2 || e == 3)) return e == 2 ? square : cube;
    if (op->fn == power && e == 0.5f) return root; /* of -inf NaN, as in ATen */
    if (op->fn == gelu && strcmp(ak_attr_enum(call, "approximate", "none"), "tanh") == 0) return gelu_tanh;
    return op->fn;
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

static int fits(const DLTensor *t, const DLTensor *out) {
    if (t->ndim > out->ndim) return 0;
    for (int i = 0, d = out->ndim - t->ndim; i < t->ndim; i++, d++)
        if (t->shape[i] != 1 && t->shape[i] != out->shape[d]) return 0;
    return 1;
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

static uint32_t argument(const struct ak_call *call, int operand) { return operand == OUT ? call->nargs - 1 : (uint32_t)operand - 1; }

/* The tensors by operand; NULL is no tensor, or a number. */
static void operands(const struct ak_call *call, const struct op *op, const DLTensor *t[OPERANDS]) {
    t[OUT] = ak_tensor_arg(call, argument(call, OUT));
    t[SELF] = ak_tensor_arg(call, argument(call, SELF));
    t[OTHER_ARG] = op->binary && call->nargs == 3 ? ak_tensor_arg(call, argument(call, OTHER_ARG)) : NULL;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const struct op *op = op_find(call->type);
    const DLTensor *t[OPERANDS];
    *needs = (struct ak_needs){0, 0};
    if (!op) return AK_UNSUPPORTED;
    operands(call, op, t);
    if (!t[SELF] || kind_of(t[OUT]) > BF16 || t[OUT]->ndim > MAX_DIMS) return AK_UNSUPPORTED;
    if (op->binary && !t[OTHER_ARG] && !ak_attr_find(call, "other")) return AK_UNSUPPORTED;
    for (int k = SELF; k < OPERANDS; k++)
        if (t[k] && (kind_of(t[k]) == OTHER || !fits(t[k], t[OUT]))) return AK_UNSUPPORTED;
    return AK_OK;
}

struct job {
    struct walk w;
    char *data[OPERANDS];
    enum kind kind[OPERANDS];
    op_fn *fn;
    float p[3], other;
};

/* Elements from..to of the row that the cursor is at. */
static void span(const struct job *j, const struct cursor *c, int64_t from, int64_t to, float buf[OPERANDS][RUN]) {
    const float *in[OPERANDS];
    const char *addr[OPERANDS];
    int64_t step[OPERANDS], n = to - from;
    for (int k = 0; k < OPERANDS; k++) {
        step[k] = j->w.step[k][j->w.n - 1];
        addr[k] = at(j->data[k], j->kind[k], c->offset[k] + from * step[k]);
        if (k != OUT) in[k] = j->data[k] ? load(addr[k], j->kind[k], step[k], n, buf[k]) : buf[k];
    }
    int direct = j->kind[OUT] == F32 && (step[OUT] == 1 || n == 1);
    float *o = direct ? (float *)addr[OUT] : buf[OUT];
    j->fn(o, in[SELF], in[OTHER_ARG], n, j->p);
    if (!direct) store((char *)addr[OUT], o, j->kind[OUT], step[OUT], n);
}

static void run(const struct job *j, int64_t first, int64_t last, int64_t per_row) {
    float buf[OPERANDS][RUN];
    struct cursor c;
    if (!j->data[OTHER_ARG])
        for (int i = 0; i < RUN; i++)
            buf[OTHER_ARG][i] = j->other;
    seek(&c, &j->w, first / per_row);
    for (int64_t t = first, part = first % per_row; t < last; t++, part++) {
        if (part == per_row) {
            next_row(&c, &j->w);
            part = 0;
        }
        int64_t from = part * RUN, to = from + RUN < j->w.length ? from + RUN : j->w.length;
        span(j, &c, from, to, buf);
    }
}

int ak_launch(const struct ak_call *call) {
    const struct op *op = op_find(call->type);
    const DLTensor *t[OPERANDS];
    operands(call, op, t);
    struct job j = {.w = walk_over(t), .fn = choose(op, call), .other = number(call, "other", 0)};
    for (int i = 0; i < 3; i++)
        j.p[i] = number(call, op->attrs[i].name, op->attrs[i].otherwise);
    for (int k = 0; k < OPERANDS; k++) {
        j.data[k] = t[k] ? (char *)t[k]->data + t[k]->byte_offset : NULL;
        j.kind[k] = t[k] ? kind_of(t[k]) : F32;
    }
    int64_t per_row = (j.w.length + RUN - 1) / RUN, tasks = j.w.rows * per_row;
    if (tasks == 0) return AK_OK;
#pragma omp parallel if (j.w.rows * j.w.length > PARALLEL_FROM)
    {
        int64_t n = omp_get_num_threads(), me = omp_get_thread_num();
        run(&j, tasks * me / n, tasks * (me + 1) / n, per_row);
    }
    return AK_OK;
}
