/* ak: types aten.batch_norm.default aten.group_norm.default */
/* Norms over channels: batch norm by its running statistics is a scale and a shift of a plane;
 * group norm takes the mean and the variance of a group's planes first. The mean is taken off before
 * the scale: a plane of equal values has a scale of 1/sqrt(eps). */
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { X, WEIGHT, BIAS, MEAN, VAR };
enum { RUN = 1024, PARALLEL_FROM = 16384 };

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

/* A tensor [N, C, ...] as planes: the dims from 2 on seen as one. */
struct planes {
    char *p;
    enum kind kind;
    int64_t n, channels, length, step[3];
};

static int planes_of(const DLTensor *t, struct planes *v) {
    if (!t || t->ndim < 2 || kind_of(t) == OTHER) return 0;
    *v = (struct planes){.p = (char *)t->data + t->byte_offset, .kind = kind_of(t), .n = t->shape[0], .channels = t->shape[1], .length = 1,
                         .step = {t->strides[0], t->strides[1], 1}};
    int some = 0;
    for (int i = t->ndim - 1; i >= 2; i--) {
        if (t->shape[i] == 1) continue;
        if (!some) v->step[2] = t->strides[i];
        if (some && t->strides[i] != v->step[2] * v->length) return 0;
        v->length *= t->shape[i];
        some = 1;
    }
    return 1;
}

static int vector_ok(const DLTensor *t) { return !t || (t->ndim == 1 && kind_of(t) != OTHER); }

static int is_group(const struct ak_call *call) { return strcmp(call->type, "aten.group_norm.default") == 0; }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct planes x, o;
    if (!planes_of(ak_tensor_arg(call, X), &x) || !planes_of(ak_tensor_arg(call, call->nargs - 1), &o)) return AK_UNSUPPORTED;
    for (uint32_t i = WEIGHT; i + 1 < call->nargs; i++)
        if (!vector_ok(ak_tensor_arg(call, i))) return AK_UNSUPPORTED;
    if (!is_group(call) && (ak_attr_int(call, "training", 0) || !ak_tensor_arg(call, MEAN) || !ak_tensor_arg(call, VAR))) return AK_UNSUPPORTED;
    if (is_group(call) && (ak_attr_int(call, "num_groups", 1) < 1 || x.channels % ak_attr_int(call, "num_groups", 1))) return AK_UNSUPPORTED;
    *needs = (struct ak_needs){(size_t)x.channels * sizeof(float), 0};
    return AK_OK;
}

static float element(const struct ak_call *call, uint32_t arg, int64_t i, float otherwise) {
    const DLTensor *t = ak_tensor_arg(call, arg);
    float v = otherwise;
    if (t) widen(&v, at(ak_data(call, arg), kind_of(t), i * t->strides[0]), kind_of(t), 1);
    return v;
}

/* At most RUN elements of plane (n, c) from i on: where they lie, or in buf. */
static const float *load(const struct planes *x, int64_t n, int64_t c, int64_t i, int64_t count, float *buf) {
    const char *p = at(x->p, x->kind, n * x->step[0] + c * x->step[1] + i * x->step[2]);
    if (x->kind == F32 && x->step[2] == 1) return (const float *)p;
    if (x->step[2] == 1)
        widen(buf, p, x->kind, count);
    else if (x->kind == F32)
        for (int64_t k = 0; k < count; k++)
            buf[k] = ((const float *)p)[k * x->step[2]];
    else
        for (int64_t k = 0; k < count; k++)
            widen(buf + k, at(p, x->kind, k * x->step[2]), x->kind, 1);
    return buf;
}

static void affine(const struct planes *x, const struct planes *o, int64_t n, int64_t c, float mean, float scale, float shift) {
    float in[RUN], out[RUN];
    int direct = o->kind == F32 && o->step[2] == 1;
    for (int64_t i = 0; i < x->length; i += RUN) {
        int64_t count = x->length - i < RUN ? x->length - i : RUN;
        const float *from = load(x, n, c, i, count, in);
        char *p = (char *)at(o->p, o->kind, n * o->step[0] + c * o->step[1] + i * o->step[2]);
        float *to = direct ? (float *)p : out;
#pragma omp simd
        for (int64_t k = 0; k < count; k++)
            to[k] = (from[k] - mean) * scale + shift;
        if (direct) continue;
        for (int64_t k = 0; k < count; k++)
            if (o->kind == F32)
                ((float *)p)[k * o->step[2]] = to[k];
            else if (o->step[2] != 1)
                narrow((char *)at(p, o->kind, k * o->step[2]), to + k, o->kind, 1);
        if (o->step[2] == 1) narrow(p, to, o->kind, count);
    }
}

/* Sum of (x - about)^power over a group's planes, in float over a run, in double over runs. */
static double moment(const struct planes *x, int64_t n, int64_t first, int64_t channels, float about, int power) {
    float buf[RUN];
    double total = 0;
    for (int64_t c = first; c < first + channels; c++)
        for (int64_t i = 0; i < x->length; i += RUN) {
            int64_t count = x->length - i < RUN ? x->length - i : RUN;
            const float *v = load(x, n, c, i, count, buf);
            float sum = 0;
            if (power == 1) {
#pragma omp simd reduction(+ : sum)
                for (int64_t k = 0; k < count; k++)
                    sum += v[k];
            } else {
#pragma omp simd reduction(+ : sum)
                for (int64_t k = 0; k < count; k++)
                    sum += (v[k] - about) * (v[k] - about);
            }
            total += sum;
        }
    return total;
}

static void group_norm(const struct ak_call *call, const struct planes *x, const struct planes *o) {
    int64_t groups = ak_attr_int(call, "num_groups", 1), channels = x->channels / groups;
    double eps = ak_attr_real(call, "eps", 1e-5), count = (double)(channels * x->length);
#pragma omp parallel for if (x->n * x->channels * x->length > PARALLEL_FROM)
    for (int64_t t = 0; t < x->n * groups; t++) {
        int64_t n = t / groups, first = t % groups * channels;
        float mean = (float)(moment(x, n, first, channels, 0, 1) / count);
        float scale = (float)(1 / sqrt(moment(x, n, first, channels, mean, 2) / count + eps));
        for (int64_t c = first; c < first + channels; c++)
            affine(x, o, n, c, mean, element(call, WEIGHT, c, 1) * scale, element(call, BIAS, c, 0));
    }
}

static void batch_norm(const struct ak_call *call, const struct planes *x, const struct planes *o) {
    float *scale = call->scratch, eps = (float)ak_attr_real(call, "eps", 1e-5);
    for (int64_t c = 0; c < x->channels; c++)
        scale[c] = element(call, WEIGHT, c, 1) / sqrtf(element(call, VAR, c, 1) + eps);
#pragma omp parallel for if (x->n * x->channels * x->length > PARALLEL_FROM)
    for (int64_t t = 0; t < x->n * x->channels; t++) {
        int64_t c = t % x->channels;
        affine(x, o, t / x->channels, c, element(call, MEAN, c, 0), scale[c], element(call, BIAS, c, 0));
    }
}

int ak_launch(const struct ak_call *call) {
    struct planes x, o;
    planes_of(ak_tensor_arg(call, X), &x);
    planes_of(ak_tensor_arg(call, call->nargs - 1), &o);
    if (is_group(call))
        group_norm(call, &x, &o);
    else
        batch_norm(call, &x, &o);
    return AK_OK;
}
