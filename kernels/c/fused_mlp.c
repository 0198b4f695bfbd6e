/* fused_mlp: out = h down_w + down_bias, h = act(x gate_w + gate_bias) [* (x up_w + up_bias)], for
 * x [M,K], gate_w and up_w [K,F], down_w [F,N], out [M,N]; act is silu, gelu, gelu_tanh or relu.
 *
 * f32, f16 and bf16 storage, any strides (a weight may be a linear layer's [out,in] transposed),
 * sums in float, h in float in scratch.
 *
 * The idea is that of matmul: a register tile of MR x NR sums over panels that lie as [K][NR]. With
 * PAIR, half the columns of a panel are gate's and half up's, so that one walk over x serves both
 * and a column of h is made where its two halves meet. Constant weights are packed once, by
 * ak_prepare; others into scratch, every time. Tasks are blocks of rows times blocks of panels,
 * evened out over the threads.
 *
 * Limits: packed 16-bit weights are kept as floats, twice their size. */
#include "ak_kernel.h"
#include <omp.h>

#define MR 12             /* knob tier=1 values=4,6,8,10,12,14 : rows of the register tile */
#define NR 32             /* knob tier=1 values=16,32,48,64 : columns of the register tile and of a panel */
#define MC 96             /* knob tier=1 values=24,48,96,192,384 : most rows in a task */
#define NC 256            /* knob tier=1 values=128,256,512,1024 : most columns of panels in a task */
#define KC 384            /* knob tier=1 values=128,256,384,512,1024 : depth walked before the sums go to memory */
#define PREFETCH_B 0      /* knob tier=2 values=0,4,8,16,32 : panel rows fetched ahead, 0 for none */
#define UNROLL_K 2        /* knob tier=3 values=1,2,4 : steps of K in the body of the inner loop */
#define KSPLIT 4          /* knob tier=3 values=1,2,4 : independent sums along K in tiles of one or two rows */
#define PACK_A 1          /* knob tier=4 values=0,1 : copy rows of x and h into panels, or broadcast from where they lie */
#define ROWS_INNER 1      /* knob tier=4 values=0,1 : hold a panel over all rows, or a few rows over all panels */
#define SPLIT_N 1         /* knob tier=4 values=0,1 : give idle threads columns rather than rows */
#define SCHEDULE static   /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 128 /* knob tier=4 values=16,64,128,512,4096,16384 : thousands of multiply-adds worth waking threads */
#define VL 16             /* knob tier=5 values=4,8,16 : lanes of a vector */
#define EXP_SCALEF 1      /* knob tier=5 values=0,1 : scale by 2^n in one instruction where there is AVX-512 */
#define PAIR 1            /* knob tier=6 values=0,1 : gate and up share panels, or have panels of their own */
#define EXP_SPLIT 1       /* knob tier=6 values=0,1 : take ln 2 off in two steps, for the last bit of exp */
#define EXP_DEGREE 6      /* knob tier=6 values=5,6,7 : degree of the polynomial in exp */
/* constraint NR % VL == 0 and (PAIR == 0 or NR % (2 * VL) == 0) */
/* constraint MR * (NR // VL) + NR // VL + 1 <= 32 : registers */
/* constraint 2 * KSPLIT * (NR // VL) + NR // VL + 1 <= 32 : registers */
/* constraint MC >= MR */

_Static_assert(NR % VL == 0 && (!PAIR || NR % (2 * VL) == 0), "a panel, or its half, is whole vectors");

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, noclone)) /* clones cost a third more time to compile */
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ALL UNROLL(64)
#define NV (NR / VL)
#define SUMS (MR > 2 * KSPLIT ? MR : 2 * KSPLIT)

typedef float f4 __attribute__((vector_size(16), aligned(4), may_alias));
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

/* Four lanes, each a straight line of floats, as [depth][width]. */
NOINLINE void transpose4(float *dst, int width, const float *src, int64_t lane, int64_t depth) {
    for (int64_t p = 0; p + 4 <= depth; p += 4, src += 4, dst += 4 * width) {
        f4 r0 = *(const f4 *)src, r1 = *(const f4 *)(src + lane), r2 = *(const f4 *)(src + 2 * lane), r3 = *(const f4 *)(src + 3 * lane);
        f4 a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
        f4 c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7), d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        *(f4 *)dst = __builtin_shufflevector(a, b, 0, 1, 4, 5);
        *(f4 *)(dst + width) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
        *(f4 *)(dst + 2 * width) = __builtin_shufflevector(c, d, 0, 1, 4, 5);
        *(f4 *)(dst + 3 * width) = __builtin_shufflevector(c, d, 2, 3, 6, 7);
    }
    for (int64_t p = 0; p < depth % 4; p++)
        for (int j = 0; j < 4; j++) dst[p * width + j] = src[j * lane + p];
}

/* lanes x depth elements as [depth][pitch]; of width lanes those beyond the last are zero. */
NOINLINE void pack_panel(float *dst, int pitch, int width, const char *src, enum kind kind, int64_t lane, int64_t step, int64_t lanes, int64_t depth) {
    if (lane == 1) {
        for (int64_t p = 0; p < depth; p++) {
            widen(dst + p * pitch, at(src, kind, p * step), kind, lanes, 1);
            for (int64_t j = lanes; j < width; j++) dst[p * pitch + j] = 0;
        }
        return;
    }
    int64_t quads = kind == F32 && step == 1 ? lanes / 4 * 4 : 0;
    for (int64_t p0 = 0; p0 < depth; p0 += 16) {
        int64_t n = depth - p0 < 16 ? depth - p0 : 16;
        for (int64_t j = 0; j < quads; j += 4) transpose4(dst + p0 * pitch + j, pitch, (const float *)src + j * lane + p0, lane, n);
        for (int64_t j = quads; j < width; j++) {
            float column[16] = {0};
            if (j < lanes) widen(column, at(src, kind, j * lane + p0 * step), kind, n, step);
            for (int64_t p = 0; p < n; p++) dst[(p0 + p) * pitch + j] = column[p];
        }
    }
}

/* m x NR sums over k steps. The first walk starts from bias, later ones add to c. */
INLINE void tile(const int m, int64_t k, const float *a, int64_t row, int64_t step, const float *b, int64_t ldb, float *c, int64_t ldc,
                 const float *bias) {
    const int sets = m <= 2 ? KSPLIT : 1;
    vec sum[SUMS][NV];
    ALL for (int i = 0; i < sets * m; i++)
        ALL for (int j = 0; j < NV; j++) sum[i][j] = (vec){0};
    if (bias)
        ALL for (int i = 0; i < m; i++)
            ALL for (int j = 0; j < NV; j++) sum[i][j] = load(bias + j * VL);
    int64_t p = 0;
    UNROLL(UNROLL_K) for (; p + sets <= k; p += sets) {
        ALL for (int s = 0; s < sets; s++) {
            vec bv[NV];
            ALL for (int j = 0; j < NV; j++) bv[j] = load(b + j * VL);
            if (PREFETCH_B)
                ALL for (int j = 0; j < NR; j += 16) __builtin_prefetch(b + PREFETCH_B * ldb + j);
            ALL for (int i = 0; i < m; i++)
                ALL for (int j = 0; j < NV; j++) sum[s * m + i][j] += a[i * row] * bv[j];
            a += step;
            b += ldb;
        }
    }
    for (; p < k; p++, a += step, b += ldb)
        ALL for (int i = 0; i < m; i++)
            ALL for (int j = 0; j < NV; j++) sum[i][j] += a[i * row] * load(b + j * VL);
    ALL for (int i = 0; i < m; i++)
        ALL for (int j = 0; j < NV; j++) {
            vec v = sum[i][j];
            ALL for (int s = 1; s < sets; s++) v += sum[s * m + i][j];
            memvec *to = (memvec *)(c + i * ldc + j * VL);
            *to = bias ? v : (vec)*to + v;
        }
}

#if PACK_A
#define A_ROW(lda) 1
#define A_STEP MR
#else
#define A_ROW(lda) (lda)
#define A_STEP 1
#endif

/* At most MR rows of one panel. */
NOINLINE void strip(int64_t m, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, const float *bias) {
    (void)lda;
    if (m == MR) {
        tile(MR, k, a, A_ROW(lda), A_STEP, b, ldb, c, ldc, bias);
        return;
    }
#define PART(n)                                                      \
    if (MR > n && (m & n)) {                                         \
        tile(n, k, a, A_ROW(lda), A_STEP, b, ldb, c, ldc, bias);     \
        a += n * A_ROW(lda);                                         \
        c += n * ldc;                                                \
    }
    PART(8) PART(4) PART(2) PART(1)
}

INLINE vec where(ivec mask, vec a, vec b) { return (vec)(((ivec)a & mask) | ((ivec)b & ~mask)); }

/* 1 / (1 + exp(-z)), with no exp that could overflow. */
INLINE vec sigmoid(vec z) {
    ivec up = z >= 0;
    vec e = exp_le0(where(up, -z, z));
    return where(up, (vec){0} + 1.0f, e) / (1.0f + e);
}

/* z times the normal distribution up to z: its upper tail is exp(-z^2 / 2) t p(t), t = 1 / (1 + 0.35 |z|), p minimax. */
INLINE vec gelu(vec z) {
    ivec up = z >= 0;
    vec y = where(up, z, -z), t = 1.0f / (1.0f + 0.35f * y);
    vec p = (-0.0291459169f * t + 0.143971633f) * t - 0.255714121f;
    p = (((p * t + 0.159174009f) * t - 0.0231097331f) * t + 0.105507962f) * t + 0.119832878f;
    vec tail = exp_le0(-0.5f * y * y) * ((p * t + 0.139861868f) * t + 0.139621404f) * t;
    return z * where(up, 1.0f - tail, tail);
}

enum act { SILU, GELU, GELU_TANH, RELU, NO_ACT };

INLINE vec activate(vec z, enum act act) {
    if (act == SILU) return z * sigmoid(z);
    if (act == GELU) return gelu(z);
    if (act == GELU_TANH) return z * sigmoid(1.59576912f * (z + 0.044715f * z * z * z));
    return larger((vec){0}, z);
}

/* A line of columns of h out of sums: groups of hc gate columns, each followed by hc up columns if up. */
NOINLINE void make_h(const float *sums, float *h, int64_t groups, int64_t hc, int up, enum act act) {
    for (int64_t g = 0; g < groups; g++, sums += hc << up, h += hc)
        for (int64_t c = 0; c < hc; c += VL) {
            vec v = activate(load(sums + c), act);
            store(h + c, up ? v * load(sums + hc + c) : v);
        }
}

struct matrix {
    const char *p; /* NULL where absent */
    enum kind kind;
    int64_t row, col;
};

/* One of the two products: a [m,k] times panels of NR columns each. */
struct phase {
    struct matrix a;
    const float *panels, *bias;
    int64_t m, k, count, unit; /* panels; how many belong together */
    int64_t mc, pc, kc;        /* a task: mc rows, pc panels, kc deep at a time */
};

struct job {
    struct matrix x, gate, up, down, gate_bias, up_bias, down_bias, out;
    enum act act;
    int64_t m, k, f, n, hc, groups; /* hc columns of h from a group of panels */
    struct phase one, two;
    int threads, constant;
    size_t bias_at, weights_at, each_at, each; /* in floats: h lies at 0 */
};

static int64_t up_to(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t parts(int64_t n, int64_t most) { return n > most ? (n + most - 1) / most : 1; }
static int64_t per(int64_t n, int64_t blocks, int64_t to) { return up_to(n > blocks ? (n + blocks - 1) / blocks : 1, to); }

static void plan_blocks(struct phase *p, int threads) {
    int64_t mb = parts(p->m, MC), nb = parts(p->count * NR, NC), all = mb * nb;
    if (threads > 1 && all % threads) {
        int64_t want = up_to(all, threads);
        if (SPLIT_N || p->m <= MR)
            nb = (want + mb - 1) / mb;
        else
            mb = (want + nb - 1) / nb;
    }
    p->mc = per(p->m, mb, MR);
    p->pc = per(p->count, nb, p->unit);
    p->kc = per(p->k, parts(p->k, p->m <= MR ? 4 * KC : KC), 1);
}

/* Panel i of gate and up: halves of one panel, or panels in turn. */
NOINLINE void pack_first(const struct job *j, int64_t i, float *dst) {
    int paired = PAIR && j->up.p, apart = !PAIR && j->up.p;
    const struct matrix *w = apart && i % 2 ? &j->up : &j->gate;
    int64_t col = (apart ? i / 2 : i) * j->hc, left = j->f - col < j->hc ? j->f - col : j->hc;
    pack_panel(dst, NR, (int)j->hc, at(w->p, w->kind, col * w->col), w->kind, w->col, w->row, left, j->k);
    if (paired) pack_panel(dst + j->hc, NR, (int)j->hc, at(j->up.p, j->up.kind, col * j->up.col), j->up.kind, j->up.col, j->up.row, left, j->k);
}

NOINLINE void pack_weights(const struct job *j, float *dst) {
#pragma omp parallel for num_threads(j->threads) schedule(static)
    for (int64_t i = 0; i < j->one.count + j->two.count; i++) {
        int64_t q = i - j->one.count, left = j->n - q * NR < NR ? j->n - q * NR : NR;
        if (q < 0)
            pack_first(j, i, dst + (size_t)(i * j->k) * NR);
        else
            pack_panel(dst + (size_t)(j->one.count * j->k + q * j->f) * NR, NR, NR, at(j->down.p, j->down.kind, q * NR * j->down.col),
                       j->down.kind, j->down.col, j->down.row, left, j->f);
    }
}

/* Biases in the order of the columns of panels. */
static void pack_bias(const struct job *j, float *one, float *two) {
    memset(one, 0, (size_t)(j->one.count + j->two.count) * NR * 4);
    for (int64_t g = 0; g < j->groups; g++) {
        int64_t col = g * j->hc, n = j->f - col < j->hc ? j->f - col : j->hc;
        float *to = one + (col << (j->up.p != NULL));
        if (j->gate_bias.p) widen(to, at(j->gate_bias.p, j->gate_bias.kind, col * j->gate_bias.col), j->gate_bias.kind, n, j->gate_bias.col);
        if (j->up_bias.p) widen(to + j->hc, at(j->up_bias.p, j->up_bias.kind, col * j->up_bias.col), j->up_bias.kind, n, j->up_bias.col);
    }
    if (j->down_bias.p) widen(two, j->down_bias.p, j->down_bias.kind, j->n, j->down_bias.col);
}

/* Rows of a from depth d on, as tile wants them. */
static const float *pack_a(const struct matrix *a, int64_t row, int64_t d, float *to, int64_t m, int64_t k, int64_t *lda) {
    const char *p = at(a->p, a->kind, row * a->row + d * a->col);
    *lda = k;
#if PACK_A
    for (int64_t i = 0; i < m; i += MR)
        pack_panel(to + i * k, MR, MR, at(p, a->kind, i * a->row), a->kind, a->row, a->col, m - i < MR ? m - i : MR, k);
#else
    if (a->kind == F32 && a->col == 1) {
        *lda = a->row;
        return (const float *)p;
    }
    for (int64_t i = 0; i < m; i++) widen(to + i * k, at(p, a->kind, i * a->row), a->kind, k, a->col);
#endif
    return to;
}

/* The sums of a task: m rows of panels [p0, p0 + n), as [m][n * NR]. */
NOINLINE void multiply(const struct phase *p, int64_t row, int64_t m, int64_t p0, int64_t n, float *sums, float *own) {
    int64_t ldc = n * NR, d = 0;
    do {
        int64_t k = p->k - d < p->kc ? p->k - d : p->kc, lda, strips = (m + MR - 1) / MR;
        const float *a = pack_a(&p->a, row, d, own, m, k, &lda);
        for (int64_t s = 0; s < strips * n; s++) {
            int64_t i = (ROWS_INNER ? s % strips : s / n) * MR, q = ROWS_INNER ? s / strips : s % n;
            strip(m - i < MR ? m - i : MR, k, a + (PACK_A ? i * k : i * lda), lda, p->panels + (size_t)((p0 + q) * p->k + d) * NR, NR,
                  sums + i * ldc + q * NR, ldc, d ? NULL : p->bias + (p0 + q) * NR);
        }
        d += k;
    } while (d < p->k);
}

NOINLINE void run(const struct job *j, const struct phase *p, enum act act, float *h, float *each) {
    int64_t mb = parts(p->m, p->mc), nb = parts(p->count, p->pc), ldh = j->groups * j->hc;
    int up = j->up.p != NULL;
#pragma omp parallel for num_threads(j->threads) schedule(SCHEDULE, 1)
    for (int64_t t = 0; t < mb * nb; t++) {
        float *own = each + j->each * (size_t)omp_get_thread_num(), *sums = own + up_to(p->mc * p->kc, 64);
        int64_t row = t / nb * p->mc, p0 = t % nb * p->pc, n = p->count - p0 < p->pc ? p->count - p0 : p->pc;
        int64_t m = p->m - row < p->mc ? p->m - row : p->mc;
        multiply(p, row, m, p0, n, sums, own);
        for (int64_t i = 0; i < m; i++) {
            const float *line = sums + i * n * NR;
            if (act == NO_ACT) {
                int64_t col = p0 * NR, left = j->n - col < n * NR ? j->n - col : n * NR;
                narrow((char *)at(j->out.p, j->out.kind, (row + i) * j->out.row + col * j->out.col), line, j->out.kind, left, j->out.col);
                continue;
            }
            float *to = h + (row + i) * ldh + ((p0 * NR) >> up);
            int64_t groups = n / p->unit;
            if (act == SILU)
                make_h(line, to, groups, j->hc, up, SILU);
            else if (act == GELU)
                make_h(line, to, groups, j->hc, up, GELU);
            else if (act == GELU_TANH)
                make_h(line, to, groups, j->hc, up, GELU_TANH);
            else
                make_h(line, to, groups, j->hc, up, RELU);
        }
    }
}

static struct matrix matrix_of(const struct ak_call *call, uint32_t i) {
    const DLTensor *t = ak_tensor_arg(call, i);
    if (!t) return (struct matrix){0};
    return (struct matrix){ak_data(call, i), kind_of(t), t->ndim == 2 ? t->strides[0] : 0, t->strides[t->ndim - 1]};
}

static int constant(const struct ak_call *call, uint32_t i) { return call->args[i].role == AK_ROLE_CONSTANT || call->args[i].role == AK_ROLE_ABSENT; }

static int set_act(struct job *j, const char *name) {
    static const char *const names[] = {[SILU] = "silu", [GELU] = "gelu", [GELU_TANH] = "gelu_tanh", [RELU] = "relu"};
    for (int i = 0; i <= RELU; i++)
        if (strcmp(name, names[i]) == 0) {
            j->act = (enum act)i;
            return AK_OK;
        }
    return AK_UNSUPPORTED;
}

NOINLINE int setup(const struct ak_call *call, struct job *j) {
    static const int dims[] = {2, 2, 2, 2, 1, 1, 1, 2};
    *j = (struct job){0};
    struct matrix *all[] = {&j->x, &j->gate, &j->up, &j->down, &j->gate_bias, &j->up_bias, &j->down_bias, &j->out};
    for (uint32_t i = 0; i < 8; i++) {
        const DLTensor *t = ak_tensor_arg(call, i);
        if (!t && (i < 2 || i == 3 || i == 7)) return AK_UNSUPPORTED;
        if (t && (t->ndim != dims[i] || kind_of(t) == OTHER)) return AK_UNSUPPORTED;
        *all[i] = matrix_of(call, i);
    }
    if (set_act(j, ak_attr_enum(call, "activation", "silu"))) return AK_UNSUPPORTED;
    const DLTensor *x = ak_tensor_arg(call, 0), *gate = ak_tensor_arg(call, 1), *down = ak_tensor_arg(call, 3);
    int up = ak_tensor_arg(call, 2) != NULL;
    j->m = x->shape[0], j->k = x->shape[1], j->f = gate->shape[1], j->n = down->shape[1];
    j->hc = up && PAIR ? NR / 2 : NR;
    j->groups = up_to(j->f, j->hc) / j->hc;
    j->constant = constant(call, 1) && constant(call, 2) && constant(call, 3);
    j->threads = (double)j->m * (double)(j->f + 1) * (double)((up + 1) * j->k + j->n) < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    j->one = (struct phase){.a = j->x, .m = j->m, .k = j->k, .count = (j->groups * j->hc << up) / NR, .unit = up && !PAIR ? 2 : 1};
    j->two = (struct phase){.a = {.kind = F32, .row = j->groups * j->hc, .col = 1}, .m = j->m, .k = j->f, .count = up_to(j->n, NR) / NR, .unit = 1};
    plan_blocks(&j->one, j->threads);
    plan_blocks(&j->two, j->threads);
    size_t one = (size_t)(up_to(j->one.mc * j->one.kc, 64) + j->one.mc * j->one.pc * NR), two = (size_t)(up_to(j->two.mc * j->two.kc, 64) + j->two.mc * j->two.pc * NR);
    j->each = (size_t)up_to((int64_t)(one > two ? one : two), 64);
    j->bias_at = (size_t)up_to(j->m * j->groups * j->hc, 64);
    j->weights_at = j->bias_at + (size_t)up_to((j->one.count + j->two.count) * NR, 64);
    j->each_at = j->weights_at + (j->constant ? 0 : (size_t)up_to((j->one.count * j->k + j->two.count * j->f) * NR, 64));
    return AK_OK;
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = j.constant ? (size_t)((j.one.count * j.k + j.two.count * j.f) * NR) * 4 : 0;
    needs->scratch_bytes = (j.each_at + j.each * (size_t)omp_get_max_threads()) * 4;
    return AK_OK;
}

int ak_prepare(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (j.constant) pack_weights(&j, call->packed);
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (!j.m || !j.n) return AK_OK;
    float *h = call->scratch, *bias = h + j.bias_at, *weights = j.constant ? call->packed : h + j.weights_at, *each = h + j.each_at;
    if (!j.constant) pack_weights(&j, weights);
    pack_bias(&j, bias, bias + j.one.count * NR);
    j.one.panels = weights;
    j.one.bias = bias;
    j.two.a.p = (const char *)h;
    j.two.panels = weights + (size_t)(j.one.count * j.k) * NR;
    j.two.bias = bias + j.one.count * NR;
    run(&j, &j.one, j.act, h, each);
    run(&j, &j.two, NO_ACT, h, each);
    return AK_OK;
}
