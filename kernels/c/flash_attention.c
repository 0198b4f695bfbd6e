/* flash_attention: out = softmax(scale * q k^T + mask) v for q [B,H,S,D], k [B,Hkv,T,D],
 * v [B,Hkv,T,Dv], out [B,H,S,Dv]; head h uses kv head h / (H / Hkv). mask [B|1,H|1,S|1,T] is added
 * (floats) or lets through (bool); causal keeps j <= i. A row that may see nothing gives zeros.
 *
 * f32, f16 and bf16 storage, any strides, arithmetic in float.
 *
 * The idea: a task is a block of queries, those of all heads that share a kv head taken together, so
 * that a key is loaded once for all of them. It walks over blocks of keys: scores by a register
 * tile over keys packed as [D][NR], their softmax with a running maximum and sum, and the same tile
 * over the values, which rescales what it adds to. Blocks that causality hides are skipped. Few
 * queries do not repay packing; they meet the keys as they lie, by dot products.
 *
 * Limits: threads share queries and heads, not the keys of one query. */
#include "ak_kernel.h"
#include <float.h>
#include <math.h>
#include <omp.h>

#define BQ 64             /* knob tier=1 values=8,16,32,64,128 : queries in a task */
#define BK 128            /* knob tier=1 values=64,128,256,512 : keys in a block */
#define MR 8              /* knob tier=1 values=4,6,8,12,14 : rows of the register tile */
#define NR 32             /* knob tier=1 values=16,32,64 : columns of the register tile */
#define PREFETCH_B 0      /* knob tier=2 values=0,4,8,16 : rows of keys and values fetched ahead, 0 for none */
#define PACK_V 0          /* knob tier=2 values=0,1 : copy values into panels too, where they could be used as they lie */
#define UNROLL_K 2        /* knob tier=3 values=1,2,4 : steps in the body of the inner loop */
#define ACC 2             /* knob tier=3 values=1,2,4 : independent maxima and sums of a row */
#define PACK_ROWS 8       /* knob tier=4 values=1,4,8,32 : fewest queries of a kv head that repay packing its keys */
#define SCHEDULE dynamic  /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define LONGEST_FIRST 1   /* knob tier=4 values=0,1 : begin with the queries that see most */
#define PARALLEL_FROM 256 /* knob tier=4 values=16,64,256,1024,4096,16384 : thousands of multiply-adds worth waking threads */
#define VL 16             /* knob tier=5 values=4,8,16 : lanes of a vector */
#define EXP_SCALEF 1      /* knob tier=5 values=0,1 : scale by 2^n in one instruction where there is AVX-512 */
#define EXP_SPLIT 1       /* knob tier=6 values=0,1 : take ln 2 off in two steps, for the last bit of exp */
#define EXP_DEGREE 6      /* knob tier=6 values=5,6,7 : degree of the polynomial in exp */
/* constraint NR % VL == 0 and BK % NR == 0 */
/* constraint MR * (NR // VL) + NR // VL + 1 <= 32 : registers */

_Static_assert(NR % VL == 0 && BK % NR == 0 && BK % VL == 0, "a block is whole panels, a panel whole vectors");

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, noclone)) /* clones cost a third more time to compile */
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ALL UNROLL(64)
#define NV (NR / VL)

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
INLINE vec larger(vec a, vec b) {
#if MASKS
    return MAX(a, b);
#else
    vec v;
    for (int i = 0; i < VL; i++) v[i] = a[i] > b[i] ? a[i] : b[i];
    return v;
#endif
}

/* Lanes from n on are -inf: no maximum, and nothing to a sum of exps. */
INLINE vec load_part(const float *p, int64_t n) {
    vec v = (vec){0} - INFINITY;
#if MASKS
    return LOAD_PART(p, v, (1u << n) - 1);
#else
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

/* exp of x <= 0: 2^n e^r with |r| <= ln 2 / 2, e^r = 1 + r + r^2 q(r), q minimax. */
INLINE vec exp_le0(vec x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
#if MASKS && EXP_SCALEF
    x = larger((vec){0} - 104.0f, x);
#endif
    vec t = x * 1.44269504f + shift, n = t - shift;
    vec r = EXP_SPLIT ? (x - n * 0.693145752f) - n * 1.42860677e-6f : x - n * 0.693147181f;
#if EXP_DEGREE == 5
    vec q = (0.00831252016f * r + 0.0418901568f) * r + 0.166671146f;
    q = q * r + 0.499992315f;
#elif EXP_DEGREE == 6
    vec q = ((0.00138145986f * r + 0.00836871688f) * r + 0.041668388f) * r + 0.166665206f;
    q = q * r + 0.499999934f;
#else
    vec q = (((0.000197903413f * r + 0.00139446596f) * r + 0.00833349708f) * r + 0.0416662949f) * r + 0.166666659f;
    q = q * r + 0.500000007f;
#endif
    vec y = (q * r + 1.0f) * r + 1.0f;
#if MASKS && EXP_SCALEF
    return SCALEF(y, n);
#else
    y *= (vec)(((ivec)t + 127) << 23);
    return (vec)((ivec)y & ~(x < -87.33f));
#endif
}

/* Halves of a vector meet until one lane is left. */
INLINE float max_of(vec v) {
    ALL for (int w = VL / 2; w; w /= 2)
        ALL for (int i = 0; i < w; i++) v[i] = v[i] > v[i + w] ? v[i] : v[i + w];
    return v[0];
}

INLINE float sum_of(vec v) {
    ALL for (int w = VL / 2; w; w /= 2)
        ALL for (int i = 0; i < w; i++) v[i] += v[i + w];
    return v[0];
}

/* c = a b over m rows and NR columns, or c * alpha + a b, alpha a factor for each row. */
INLINE void tile(const int m, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, const float *alpha) {
    vec sum[MR][NV];
    ALL for (int i = 0; i < m; i++)
        ALL for (int j = 0; j < NV; j++) sum[i][j] = (vec){0};
    UNROLL(UNROLL_K) for (int64_t p = 0; p < k; p++, b += ldb) {
        vec bv[NV];
        ALL for (int j = 0; j < NV; j++) bv[j] = load(b + j * VL);
        if (PREFETCH_B)
            ALL for (int j = 0; j < NR; j += 16) __builtin_prefetch(b + PREFETCH_B * ldb + j);
        ALL for (int i = 0; i < m; i++)
            ALL for (int j = 0; j < NV; j++) sum[i][j] += a[i * lda + p] * bv[j];
    }
    ALL for (int i = 0; i < m; i++)
        ALL for (int j = 0; j < NV; j++) {
            float *to = c + i * ldc + j * VL;
            store(to, alpha ? load(to) * alpha[i] + sum[i][j] : sum[i][j]);
        }
}

NOINLINE void strips(int64_t m, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, const float *alpha) {
#define PART(n)                                     \
    do {                                            \
        tile(n, k, a, lda, b, ldb, c, ldc, alpha);  \
        a += n * lda;                               \
        c += n * ldc;                               \
        if (alpha) alpha += n;                      \
        m -= n;                                     \
    } while (0)
    while (m >= MR) PART(MR);
    if (MR > 8 && m >= 8) PART(8);
    if (MR > 4 && m >= 4) PART(4);
    if (m >= 2) PART(2);
    if (m >= 1) PART(1);
}

NOINLINE float dot(const float *a, const float *b, int64_t n) {
    vec s[2] = {0};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        s[0] += load(a + i) * load(b + i);
        s[1] += load(a + i + VL) * load(b + i + VL);
    }
    for (; i + VL <= n; i += VL) s[0] += load(a + i) * load(b + i);
    float f = sum_of(s[0] + s[1]);
    for (; i < n; i++) f += a[i] * b[i];
    return f;
}

/* The scores of one row, n of them seen and BK in all, become exp(score - max); *max and *sum go on
 * from earlier blocks. Returns what earlier sums are to be scaled by. A maximum starts from the
 * least float, so that a row that has seen only -inf has weights of 0. A mask is added or, if hard,
 * holds all bits or none and puts -inf, even over a NaN. */
NOINLINE float soften(float *s, int64_t n, const float *mask, int hard, float *max, float *sum) {
    vec m[ACC], e[ACC];
    ALL for (int a = 0; a < ACC; a++) m[a] = (vec){0} + *max, e[a] = (vec){0};
    for (int64_t i = 0; i < n; i += ACC * VL)
        ALL for (int a = 0; a < ACC; a++) {
            int64_t at_ = i + a * VL, left = n - at_;
            if (left <= 0) continue;
            vec v = left >= VL ? load(s + at_) : load_part(s + at_, left);
            vec by = !mask ? (vec){0} : left >= VL ? load(mask + at_) : load_part(mask + at_, left);
            if (mask) v = hard ? (vec)(((ivec)v & (ivec)by) | ((ivec)((vec){0} - INFINITY) & ~(ivec)by)) : v + by;
            if (mask || left < VL) store(s + at_, v);
            m[a] = larger(v, m[a]);
        }
    ALL for (int a = 1; a < ACC; a++) m[0] = larger(m[0], m[a]);
    float top = max_of(m[0]);
    for (int64_t i = 0; i < n; i += ACC * VL)
        ALL for (int a = 0; a < ACC; a++) {
            if (i + a * VL >= n) continue;
            vec y = exp_le0(load(s + i + a * VL) - top);
            store(s + i + a * VL, y);
            e[a] += y;
        }
    ALL for (int a = 1; a < ACC; a++) e[0] += e[a];
    for (int64_t i = (n + VL - 1) / VL * VL; i < BK; i += VL) store(s + i, (vec){0});
    float alpha = exp_le0((vec){0} + (*max - top))[0];
    *sum = *sum * alpha + sum_of(e[0]);
    *max = top;
    return alpha;
}

struct view { /* [B,H,S,D] in memory; dims of size 1 have stride 0 */
    char *p;
    enum kind kind;
    int64_t shape[4], stride[4];
};

struct job {
    struct view q, k, v, mask, out;
    int bool_mask, causal, pack_k, pack_v, threads;
    float scale;
    int64_t group, rows;    /* heads of a kv head; queries of a kv head */
    int64_t k_panels, v_panels;
    size_t kv, v_at, each_at, each; /* in floats: of one head's keys; where scratch holds values and threads' own */
};

static char *row_at(const struct view *v, int64_t b, int64_t h, int64_t i) {
    return at(v->p, v->kind, b * v->stride[0] + h * v->stride[1] + i * v->stride[2]);
}

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Keys of one panel as [D][NR], zeros beyond the last. */
NOINLINE void pack_keys(const struct job *j, int64_t b, int64_t h, int64_t panel, float *dst) {
    int64_t d = j->k.shape[3], n = j->k.shape[2] - panel * NR < NR ? j->k.shape[2] - panel * NR : NR;
    for (int64_t p = 0; p < d; p += 16) {
        int64_t m = d - p < 16 ? d - p : 16;
        for (int64_t i = 0; i < NR; i++) {
            float line[16] = {0};
            if (i < n) widen(line, at(row_at(&j->k, b, h, panel * NR + i), j->k.kind, p * j->k.stride[3]), j->k.kind, m, j->k.stride[3]);
            for (int64_t c = 0; c < m; c++) dst[(p + c) * NR + i] = line[c];
        }
    }
}

/* Columns of one panel of values as [T][NR], zeros beyond the last. */
NOINLINE void pack_values(const struct job *j, int64_t b, int64_t h, int64_t panel, float *dst) {
    int64_t n = j->v.shape[3] - panel * NR < NR ? j->v.shape[3] - panel * NR : NR;
    for (int64_t t = 0; t < j->v.shape[2]; t++, dst += NR) {
        widen(dst, at(row_at(&j->v, b, h, t), j->v.kind, panel * NR * j->v.stride[3]), j->v.kind, n, j->v.stride[3]);
        for (int64_t c = n; c < NR; c++) dst[c] = 0;
    }
}

NOINLINE void pack(const struct job *j, float *scratch) {
    int64_t heads = j->k.shape[0] * j->k.shape[1], nk = j->pack_k ? j->k_panels : 0, nv = j->pack_v ? j->v_panels : 0;
#pragma omp parallel for num_threads(j->threads) schedule(static)
    for (int64_t i = 0; i < heads * (nk + nv); i++) {
        int64_t bh = i / (nk + nv), panel = i % (nk + nv), b = bh / j->k.shape[1], h = bh % j->k.shape[1];
        if (panel < nk)
            pack_keys(j, b, h, panel, scratch + (size_t)bh * j->kv + (size_t)(panel * NR * j->k.shape[3]));
        else
            pack_values(j, b, h, panel - nk, scratch + j->v_at + (size_t)((bh * nv + panel - nk) * j->v.shape[2] * NR));
    }
}

/* A thread's own: queries, scores, sums of values, then a line of mask and a widened key. */
struct own {
    float *q, *s, *o, *line, *key, alpha[BQ], max[BQ], sum[BQ];
};

NOINLINE const float *mask_line(const struct job *j, int64_t b, int64_t h, int64_t i, int64_t from, int64_t n, float *line) {
    if (!j->mask.p) return NULL;
    const struct view *m = &j->mask;
    if (j->bool_mask) {
        const uint8_t *p = (const uint8_t *)m->p + b * m->stride[0] + h * m->stride[1] + i * m->stride[2] + from * m->stride[3];
        for (int64_t t = 0; t < n; t++) ((int32_t *)line)[t] = p[t * m->stride[3]] ? -1 : 0;
        return line;
    }
    const char *p = at(row_at(m, b, h, i), m->kind, from * m->stride[3]);
    if (m->kind == F32 && m->stride[3] == 1) return (const float *)p;
    widen(line, p, m->kind, n, m->stride[3]);
    return line;
}

/* m rows of scores against keys [from, from + n). */
NOINLINE void scores(const struct job *j, int64_t b, int64_t h, int64_t m, int64_t from, int64_t n, const float *packed, struct own *w) {
    int64_t d = j->q.shape[3];
    if (j->pack_k) {
        for (int64_t c = 0; c < n; c += NR)
            strips(m, d, w->q, d, packed + (size_t)(b * j->k.shape[1] + h) * j->kv + (size_t)((from + c) * d), NR, w->s + c, BK, NULL);
        return;
    }
    for (int64_t c = 0; c < n; c++) {
        const float *key = (const float *)row_at(&j->k, b, h, from + c);
        if (j->k.kind != F32 || j->k.stride[3] != 1) {
            widen(w->key, (const char *)key, j->k.kind, d, j->k.stride[3]);
            key = w->key;
        }
        for (int64_t i = 0; i < m; i++) w->s[i * BK + c] = dot(w->q + i * d, key, d);
    }
}

/* m rows of weights times values [from, from + n), added to the rescaled sums. */
NOINLINE void values(const struct job *j, int64_t b, int64_t h, int64_t m, int64_t from, int64_t n, const float *packed, struct own *w) {
    for (int64_t p = 0; p < j->v_panels; p++) {
        const float *v = (const float *)row_at(&j->v, b, h, from) + p * NR;
        if (j->pack_v) v = packed + (size_t)(((b * j->v.shape[1] + h) * j->v_panels + p) * j->v.shape[2] + from) * NR;
        strips(m, n, w->s, BK, v, j->pack_v ? NR : j->v.stride[2], w->o + p * NR, j->v_panels * NR, w->alpha);
    }
}

/* Queries [row, row + m) of kv head h of batch b; query r is position r / group of head r % group. */
NOINLINE void task(const struct job *j, int64_t b, int64_t h, int64_t row, int64_t m, const float *scratch, struct own *w) {
    int64_t d = j->q.shape[3], keys = j->k.shape[2], wide = j->v_panels * NR, last = (row + m - 1) / j->group;
    int64_t end = j->causal && last + 1 < keys ? last + 1 : keys;
    for (int64_t i = 0; i < m; i++) {
        int64_t r = row + i;
        widen(w->q + i * d, row_at(&j->q, b, h * j->group + r % j->group, r / j->group), j->q.kind, d, j->q.stride[3]);
        for (int64_t c = 0; c < d; c++) w->q[i * d + c] *= j->scale;
        w->max[i] = -FLT_MAX;
        w->sum[i] = 0;
    }
    memset(w->o, 0, (size_t)(m * wide) * 4);
    for (int64_t from = 0; from < end; from += BK) {
        int64_t n = end - from < BK ? end - from : BK;
        scores(j, b, h, m, from, n, scratch, w);
        for (int64_t i = 0; i < m; i++) {
            int64_t r = row + i, pos = r / j->group, seen = j->causal && pos + 1 - from < n ? pos + 1 - from : n;
            seen = seen > 0 ? seen : 0;
            w->alpha[i] = soften(w->s + i * BK, seen, mask_line(j, b, h * j->group + r % j->group, pos, from, seen, w->line), j->bool_mask, w->max + i, w->sum + i);
        }
        values(j, b, h, m, from, n, scratch + j->v_at, w);
    }
    for (int64_t i = 0; i < m; i++) {
        int64_t r = row + i;
        float *o = w->o + i * wide, by = w->sum[i] == 0 ? 0 : 1 / w->sum[i];
        for (int64_t c = 0; c < j->v.shape[3]; c++) o[c] *= by;
        narrow(row_at(&j->out, b, h * j->group + r % j->group, r / j->group), o, j->out.kind, j->v.shape[3], j->out.stride[3]);
    }
}

static struct view view_of(const struct ak_call *call, uint32_t i) {
    const DLTensor *t = ak_tensor_arg(call, i);
    struct view v = {.p = ak_data(call, i), .kind = t && t->ndim == 4 ? kind_of(t) : OTHER};
    for (int k = 0; k < 4 && t && t->ndim == 4; k++) {
        v.shape[k] = t->shape[k];
        v.stride[k] = t->shape[k] == 1 ? 0 : t->strides[k];
    }
    return v;
}

NOINLINE int setup(const struct ak_call *call, struct job *j) {
    const DLTensor *mask = ak_tensor_arg(call, 3);
    *j = (struct job){.q = view_of(call, 0), .k = view_of(call, 1), .v = view_of(call, 2), .mask = view_of(call, 3), .out = view_of(call, 4),
                      .bool_mask = mask && ak_is_dtype(mask, AK_DL_BOOL, 8), .causal = ak_attr_int(call, "causal", 0) != 0};
    if (j->q.kind == OTHER || j->k.kind == OTHER || j->v.kind == OTHER || j->out.kind == OTHER) return AK_UNSUPPORTED;
    if (mask && (mask->ndim != 4 || (j->mask.kind == OTHER && !j->bool_mask))) return AK_UNSUPPORTED;
    int64_t hkv = j->k.shape[1], d = j->q.shape[3], keys = j->k.shape[2];
    if (hkv == 0 || j->q.shape[1] % hkv) return AK_UNSUPPORTED;
    j->scale = (float)ak_attr_real(call, "scale", d ? 1 / sqrt((double)d) : 1);
    j->group = j->q.shape[1] / hkv;
    j->rows = j->group * j->q.shape[2];
    j->k_panels = up(keys, NR) / NR;
    j->v_panels = up(j->v.shape[3], NR) / NR;
    j->pack_k = j->rows >= PACK_ROWS;
    j->pack_v = PACK_V || j->v.kind != F32 || (j->v.stride[3] != 1 && j->v.shape[3] != 1) || j->v.shape[3] % NR != 0;
    double work = (double)(j->q.shape[0] * hkv * j->rows) * (double)keys * (double)(d + j->v.shape[3]);
    j->threads = work < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    int64_t heads = j->k.shape[0] * hkv;
    j->kv = (size_t)(j->k_panels * NR * d);
    j->v_at = j->pack_k ? (size_t)up(heads * (int64_t)j->kv, 64) : 0;
    j->each_at = j->v_at + (j->pack_v ? (size_t)up(heads * j->v_panels * keys * NR, 64) : 0);
    j->each = (size_t)up(BQ * (d + BK + j->v_panels * NR) + BK + d, 64);
    return AK_OK;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = 0;
    needs->scratch_bytes = (j.each_at + j.each * (size_t)omp_get_max_threads()) * 4;
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (!j.rows || !j.v.shape[3]) return AK_OK;
    float *scratch = call->scratch;
    if (j.pack_k || j.pack_v) pack(&j, scratch);
    int64_t blocks = (j.rows + BQ - 1) / BQ, heads = j.k.shape[0] * j.k.shape[1];
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE, 1)
    for (int64_t t = 0; t < blocks * heads; t++) {
        float *p = scratch + j.each_at + j.each * (size_t)omp_get_thread_num();
        int64_t d = j.q.shape[3], block = t / heads, h = t % heads % j.k.shape[1], b = t % heads / j.k.shape[1];
        struct own w = {.q = p, .s = p + BQ * d, .o = p + BQ * (d + BK), .line = p + BQ * (d + BK + j.v_panels * NR)};
        w.key = w.line + BK;
        if (LONGEST_FIRST) block = blocks - 1 - block;
        task(&j, b, h, block * BQ, j.rows - block * BQ < BQ ? j.rows - block * BQ : BQ, scratch, &w);
    }
    return AK_OK;
}
