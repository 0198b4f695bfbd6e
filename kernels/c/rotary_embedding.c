/* rotary_embedding: out = x * cos + rotate(x) * sin for x [B,H,T,D] and, where given, the same for
 * y [B,H2,T,D] into out2. cos and sin are [B or 1, H or 1, T, D]. With interleaved false, rotate(x)
 * is cat(-x[D/2:], x[:D/2]); with interleaved true it takes pairs: (-x[2i+1], x[2i]).
 *
 * f32, f16 and bf16 storage, any strides (queries and keys usually are transposed views), D even,
 * arithmetic in float.
 *
 * The idea: it is a copy, so what counts is the order of rows. A task is some positions with either
 * all heads of each, so that a row of cos and sin serves every head, or one head after another.
 * Rows that are not a straight line of floats are widened into scratch. */
#include "ak_kernel.h"
#include <omp.h>

#define ROWS 8             /* knob tier=1 values=1,4,8,32,128 : positions in a task */
#define PREFETCH 1         /* knob tier=2 values=0,1,2,4 : rows of x fetched ahead, 0 for none */
#define STREAM_FROM 8      /* knob tier=2 values=0,1,8,32,1000000 : MiB of out from which stores bypass the cache, 0 for never */
#define UNROLL_ROW 2       /* knob tier=3 values=1,2,4 : vectors in the body of the inner loop */
#define HEADS_INNER 1      /* knob tier=4 values=0,1 : all heads of a position, or all positions of a head, one after another */
#define SCHEDULE static    /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 32   /* knob tier=4 values=4,16,32,128,512,2048 : thousands of elements worth waking threads */
#define VL 16              /* knob tier=5 values=4,8,16 : lanes of a vector */
#define APART 0            /* knob tier=6 values=0,1 : finish x before y, or take both position by position */

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, noclone)) /* clones cost a third more time to compile */
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ALL UNROLL(64)
typedef float vec __attribute__((vector_size(4 * VL)));
typedef int32_t ivec __attribute__((vector_size(4 * VL)));
typedef float memvec __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias));

/* What vectors have no operator for: one instruction each where there is AVX-512, else lane by lane. */
#if defined __AVX512F__ && defined __AVX512VL__ && !defined __clang__
#define MASKS 1
#if VL == 16
#define MAX(a, b) __builtin_ia32_maxps512_mask(a, b, a, -1, 4)
#define LOAD_PART(p, fill, mask) __builtin_ia32_loadups512_mask(p, fill, (unsigned short)(mask))
#define STORE_PART(p, v, mask) __builtin_ia32_storeups512_mask(p, v, (unsigned short)(mask))
#define STREAM(p, v) __builtin_ia32_movntps512(p, v)
#define SCALEF(a, b) __builtin_ia32_scalefps512_mask(a, b, a, -1, 4)
#elif VL == 8
#define MAX(a, b) __builtin_ia32_maxps256(a, b)
#define LOAD_PART(p, fill, mask) __builtin_ia32_loadups256_mask(p, fill, (unsigned char)(mask))
#define STORE_PART(p, v, mask) __builtin_ia32_storeups256_mask(p, v, (unsigned char)(mask))
#define STREAM(p, v) __builtin_ia32_movntps256(p, v)
#define SCALEF(a, b) __builtin_ia32_scalefps256_mask(a, b, a, -1)
#else
#define MAX(a, b) __builtin_ia32_maxps(a, b)
#define LOAD_PART(p, fill, mask) __builtin_ia32_loadups128_mask(p, fill, (unsigned char)(mask))
#define STORE_PART(p, v, mask) __builtin_ia32_storeups128_mask(p, v, (unsigned char)(mask))
#define STREAM(p, v) __builtin_ia32_movntps(p, v)
#define SCALEF(a, b) __builtin_ia32_scalefps128_mask(a, b, a, -1)
#endif
#else
#define MASKS 0
#endif

enum kind { F32, F16, BF16, OTHER };

static enum kind kind_of(const DLTensor *t) {
    return ak_is_dtype(t, kDLFloat, 32) ? F32 : ak_is_dtype(t, kDLFloat, 16) ? F16 : ak_is_dtype(t, kDLBfloat, 16) ? BF16 : OTHER;
}

static char *at(const char *p, enum kind kind, int64_t i) { return (char *)p + i * (kind == F32 ? 4 : 2); }

/* n elements `stride` apart as floats. */
NOINLINE void widen(float *dst, const char *src, enum kind kind, int64_t n, int64_t stride) {
    int64_t i = 0;
    if (kind == F32) {
        for (; i < n; i++) dst[i] = ((const float *)src)[i * stride];
    } else if (kind == BF16) {
        const uint16_t *s = (const uint16_t *)src;
        for (; i < n; i++) ((uint32_t *)dst)[i] = (uint32_t)s[i * stride] << 16;
    } else {
#if defined __F16C__ && !defined __clang__
        if (stride == 1)
            for (; i + 8 <= n; i += 8) *(f8 *)(dst + i) = __builtin_ia32_vcvtph2ps256(*(const h8 *)(src + 2 * i));
#endif
        for (; i < n; i++) dst[i] = ((const _Float16 *)src)[i * stride];
    }
}

NOINLINE void narrow(char *dst, const float *src, enum kind kind, int64_t n, int64_t stride) {
    int64_t i = 0;
    if (kind == F32) {
        for (; i < n; i++) ((float *)dst)[i * stride] = src[i];
    } else if (kind == BF16) {
        for (; i < n; i++) {
            uint32_t u;
            memcpy(&u, src + i, 4);
            uint32_t nan = (u & 0x7fffffff) > 0x7f800000, even = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
            ((uint16_t *)dst)[i * stride] = (uint16_t)(nan ? u >> 16 | 0x40 : even);
        }
    } else {
#if defined __F16C__ && !defined __clang__
        if (stride == 1)
            for (; i + 8 <= n; i += 8) *(h8 *)(dst + 2 * i) = __builtin_ia32_vcvtps2ph256(*(const f8 *)(src + i), 4);
#endif
        for (; i < n; i++) ((_Float16 *)dst)[i * stride] = (_Float16)src[i];
    }
}

INLINE vec load(const float *p) { return *(const memvec *)p; }
INLINE void store(float *p, vec v) { *(memvec *)p = v; }
/* Lanes from n on are 0. */
INLINE vec load_part(const float *p, int64_t n) {
    vec v = {0};
#if MASKS
    return LOAD_PART(p, v, (1u << n) - 1);
#else
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

INLINE void store_part(float *p, vec v, int64_t n) {
#if MASKS
    STORE_PART(p, v, (1u << n) - 1);
#else
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
#endif
}

/* A store that bypasses the cache; p is aligned to a vector. */
INLINE void stream(float *p, vec v) {
#if MASKS
    STREAM(p, v);
#else
    store(p, v);
#endif
}

INLINE void stream_end(void) {
#ifdef __SSE__
    __builtin_ia32_sfence();
#endif
}

INLINE void put(float *p, vec v, int bypass) {
    if (bypass)
        stream(p, v);
    else
        store(p, v);
}

/* Halves: element i of each half meets its partner. */
NOINLINE void turn_halves(const float *x, const float *c, const float *s, float *out, int64_t d, int bypass) {
    int64_t h = d / 2, i = 0;
    UNROLL(UNROLL_ROW) for (; i + VL <= h; i += VL) {
        vec a = load(x + i), b = load(x + h + i);
        put(out + i, a * load(c + i) - b * load(s + i), bypass);
        put(out + h + i, b * load(c + h + i) + a * load(s + h + i), bypass);
    }
    if (i == h) return;
    int64_t n = h - i;
    vec a = load_part(x + i, n), b = load_part(x + h + i, n);
    store_part(out + i, a * load_part(c + i, n) - b * load_part(s + i, n), n);
    store_part(out + h + i, b * load_part(c + h + i, n) + a * load_part(s + h + i, n), n);
}

/* Neighbours swap places, and the one that lands on an even lane changes its sign. */
INLINE vec rotated(vec v) {
#if VL == 16
    v = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif VL == 8
    v = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    v = __builtin_shufflevector(v, v, 1, 0, 3, 2);
#endif
    ivec sign;
    ALL for (int i = 0; i < VL; i++) sign[i] = i % 2 ? 0 : INT32_MIN;
    return (vec)((ivec)v ^ sign);
}

NOINLINE void turn_pairs(const float *x, const float *c, const float *s, float *out, int64_t d, int bypass) {
    int64_t i = 0;
    UNROLL(UNROLL_ROW) for (; i + VL <= d; i += VL) {
        vec v = load(x + i);
        put(out + i, v * load(c + i) + rotated(v) * load(s + i), bypass);
    }
    if (i == d) return;
    int64_t n = d - i;
    vec v = load_part(x + i, n);
    store_part(out + i, v * load_part(c + i, n) + rotated(v) * load_part(s + i, n), n);
}

struct view { /* [B,H,T,D] in memory; p is NULL where absent */
    char *p;
    enum kind kind;
    int64_t shape[4], stride[4];
};

struct job {
    struct view x, y, cos, sin, out, out2;
    int pairs, bypass, threads;
};

static char *row_at(const struct view *v, int64_t b, int64_t h, int64_t t) {
    return at(v->p, v->kind, b * v->stride[0] + h * v->stride[1] + t * v->stride[2]);
}

static const float *line(const struct view *v, int64_t b, int64_t h, int64_t t, float *own) {
    char *p = row_at(v, b, h, t);
    if (v->kind == F32 && v->stride[3] == 1) return (const float *)p;
    widen(own, p, v->kind, v->shape[3], v->stride[3]);
    return own;
}

static void one_row(const struct job *j, const struct view *in, const struct view *to, const float *c, const float *s, int64_t b, int64_t h, int64_t t,
                    float *own) {
    int64_t d = in->shape[3];
    int direct = to->kind == F32 && to->stride[3] == 1;
    const float *x = line(in, b, h, t, own);
    float *out = direct ? (float *)row_at(to, b, h, t) : own + d;
    int bypass = j->bypass && direct && (uintptr_t)out % (4 * VL) == 0 && (j->pairs || d / 2 % VL == 0);
    if (PREFETCH) {
        const char *next = HEADS_INNER ? row_at(in, b, h + PREFETCH, t) : row_at(in, b, h, t + PREFETCH);
        for (int64_t i = 0; i < d * (in->kind == F32 ? 4 : 2); i += 64) __builtin_prefetch(next + i);
    }
    if (j->pairs)
        turn_pairs(x, c, s, out, d, bypass);
    else
        turn_halves(x, c, s, out, d, bypass);
    if (!direct) narrow(row_at(to, b, h, t), out, to->kind, d, to->stride[3]);
}

/* Heads [h0, h1) of position t; cos and sin are widened anew only where they differ. */
static void heads(const struct job *j, const struct view *in, const struct view *to, int64_t b, int64_t h0, int64_t h1, int64_t t, float *own) {
    int64_t d = in->shape[3];
    const float *c = NULL, *s = NULL;
    for (int64_t h = h0; h < h1; h++) {
        if (!c || j->cos.stride[1] || j->sin.stride[1]) {
            c = line(&j->cos, b, h, t, own);
            s = line(&j->sin, b, h, t, own + d);
        }
        one_row(j, in, to, c, s, b, h, t, own + 2 * d);
    }
}

static void positions(const struct job *j, int64_t b, int64_t t0, int64_t t1, int both, const struct view *in, const struct view *to, float *own) {
    if (HEADS_INNER) {
        for (int64_t t = t0; t < t1; t++) {
            heads(j, in, to, b, 0, in->shape[1], t, own);
            if (both) heads(j, &j->y, &j->out2, b, 0, j->y.shape[1], t, own);
        }
        return;
    }
    for (int64_t h = 0; h < in->shape[1]; h++)
        for (int64_t t = t0; t < t1; t++) heads(j, in, to, b, h, h + 1, t, own);
    for (int64_t h = 0; both && h < j->y.shape[1]; h++)
        for (int64_t t = t0; t < t1; t++) heads(j, &j->y, &j->out2, b, h, h + 1, t, own);
}

/* A dim of size 1 broadcasts. */
static struct view view_of(const struct ak_call *call, uint32_t i) {
    const DLTensor *t = ak_tensor_arg(call, i);
    struct view v = {.p = ak_data(call, i), .kind = t && t->ndim == 4 ? kind_of(t) : t ? OTHER : F32};
    for (int k = 0; k < 4 && t && t->ndim == 4; k++) {
        v.shape[k] = t->shape[k];
        v.stride[k] = t->shape[k] == 1 ? 0 : t->strides[k];
    }
    return v;
}

static int setup(const struct ak_call *call, struct job *j) {
    *j = (struct job){.x = view_of(call, 0), .y = view_of(call, 1), .cos = view_of(call, 2), .sin = view_of(call, 3),
                      .out = view_of(call, 4), .out2 = view_of(call, 5), .pairs = ak_attr_int(call, "interleaved", 0) != 0};
    const struct view *all[] = {&j->x, &j->y, &j->cos, &j->sin, &j->out, &j->out2};
    for (int i = 0; i < 6; i++)
        if (all[i]->kind == OTHER) return AK_UNSUPPORTED;
    if (!ak_tensor_arg(call, 0) || !ak_tensor_arg(call, 2) || !ak_tensor_arg(call, 3) || !ak_tensor_arg(call, 4) || j->x.shape[3] % 2 ||
        j->cos.shape[3] != j->x.shape[3] || j->sin.shape[3] != j->x.shape[3] || !ak_tensor_arg(call, 1) != !ak_tensor_arg(call, 5))
        return AK_UNSUPPORTED;
    double n = (double)j->x.shape[0] * (double)(j->x.shape[1] + j->y.shape[1]) * (double)j->x.shape[2] * (double)j->x.shape[3];
    j->bypass = STREAM_FROM && n * 4 >= STREAM_FROM * 1048576.0;
    j->threads = n < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    return AK_OK;
}

static size_t own_floats(const struct job *j) { return ((size_t)j->x.shape[3] * 4 + 63) / 64 * 64; }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = 0;
    needs->scratch_bytes = own_floats(&j) * (size_t)omp_get_max_threads() * 4;
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    int64_t t_all = j.x.shape[2], blocks = (t_all + ROWS - 1) / ROWS, each = j.x.shape[0] * blocks;
    int y = ak_tensor_arg(call, 1) != NULL;
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE)
    for (int64_t k = 0; k < each * (y && APART ? 2 : 1); k++) {
        float *own = (float *)call->scratch + own_floats(&j) * (size_t)omp_get_thread_num();
        int64_t b = k % each / blocks, t0 = k % blocks * ROWS, t1 = t0 + ROWS < t_all ? t0 + ROWS : t_all;
        if (k < each)
            positions(&j, b, t0, t1, y && !APART, &j.x, &j.out, own);
        else
            positions(&j, b, t0, t1, 0, &j.y, &j.out2, own);
        if (j.bypass) stream_end();
    }
    return AK_OK;
}
