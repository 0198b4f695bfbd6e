/* matmul: out[b] = a[b] @ b[b] (+ bias), for a [B,M,K], b [B,K,N], bias [N], out [B,M,N].
 *
 * f32, f16 and bf16 storage, any strides, sums in float. b may be row-major or a linear layer's
 * weight [N,K] seen transposed; a batch stride of 0 shares one operand.
 *
 * The idea is the usual one: a register tile of MR x NR sums walks down K over a panel of b that
 * lies as [K][NR], so that every load is a straight line. Constant b is packed into such panels
 * once, by ak_prepare; other b is packed into scratch, used where it lies (f32, row-major, few
 * rows of a), or met by dot products (f32, [N,K], very few rows). A task is a block of rows times
 * a block of panels; tasks are evened out over the threads and share nothing.
 *
 * Limits: packed 16-bit weights are kept as floats, twice their size. */
#include "ak_kernel.h"
#include <omp.h>

#define MR 14             /* knob tier=1 values=4,6,8,10,12,14 : rows of the register tile */
#define NR 32             /* knob tier=1 values=8,16,32,48,64 : columns of the register tile and of a packed panel */
#define MC 168            /* knob tier=1 values=24,48,84,168,336,672 : most rows of a in a task */
#define NC 512            /* knob tier=1 values=96,256,512,1024,4096 : most columns of b in a task */
#define KC 256            /* knob tier=1 values=128,192,256,384,512,1024 : depth walked before the sums go to memory */
#define PREFETCH_B 0      /* knob tier=2 values=0,4,8,16,32 : panel rows fetched ahead, 0 for none */
#define PREFETCH_C 1      /* knob tier=2 values=0,1 : fetch the tile of out before its sums are ready */
#define UNROLL_K 2        /* knob tier=3 values=1,2,4,8 : steps of K in the body of the inner loop */
#define KSPLIT 4          /* knob tier=3 values=1,2,4 : independent sums along K in tiles of one or two rows */
#define PACK_A 1          /* knob tier=4 values=0,1 : copy rows of a into panels, or broadcast from where they lie */
#define PACK_CONSTANT 1   /* knob tier=4 values=0,1 : pack constant b ahead of time, or treat it as any other */
#define PACK_ROWS 64      /* knob tier=4 values=1,8,64,256 : fewest rows of a that repay packing a row-major b */
#define ROWS_INNER 1      /* knob tier=4 values=0,1 : hold a panel of b over all rows, or a few rows over all panels */
#define SPLIT_N 0         /* knob tier=4 values=0,1 : give idle threads columns rather than rows */
#define SCHEDULE static   /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 128 /* knob tier=4 values=16,64,128,512,4096,16384 : thousands of multiply-adds worth waking threads */
#define VL 16             /* knob tier=5 values=4,8,16 : lanes of a vector */
#define DOT_ROWS 4        /* knob tier=6 values=0,1,4,16 : most rows met by dot products where b is [N,K] and not packed */
/* constraint NR % VL == 0 */
/* constraint MR * (NR // VL) + NR // VL + 1 <= 32 : registers */
/* constraint 2 * KSPLIT * (NR // VL) + NR // VL + 1 <= 32 : registers */
/* constraint MC >= MR and NC >= NR */

_Static_assert(NR % VL == 0, "a panel is whole vectors");

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, noclone)) /* clones cost a third more time to compile */
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ALL UNROLL(64)
#define NV (NR / VL)
#define SUMS (MR > 2 * KSPLIT ? MR : 2 * KSPLIT)

typedef float vec __attribute__((vector_size(4 * VL)));
typedef float memvec __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef float f4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias));

enum kind { F32, F16, BF16, OTHER };

static enum kind kind_of(const DLTensor *t) {
    return ak_is_dtype(t, kDLFloat, 32) ? F32 : ak_is_dtype(t, kDLFloat, 16) ? F16 : ak_is_dtype(t, kDLBfloat, 16) ? BF16 : OTHER;
}

static const char *at(const char *p, enum kind kind, int64_t i) { return p + i * (kind == F32 ? 4 : 2); }

/* n elements `stride` apart as floats. */
NOINLINE void widen(float *dst, const char *src, enum kind kind, int64_t n, int64_t stride) {
    int64_t i = 0;
    if (kind == F32 && stride == 1) {
        memcpy(dst, src, (size_t)n * 4);
    } else if (kind == F32) {
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

/* lanes x depth elements as [depth][width], lanes beyond the last zero. */
NOINLINE void pack_panel(float *dst, int width, const char *src, enum kind kind, int64_t lane, int64_t step, int64_t lanes, int64_t depth) {
    if (lane == 1) {
        for (int64_t p = 0; p < depth; p++) {
            widen(dst + p * width, at(src, kind, p * step), kind, lanes, 1);
            for (int64_t j = lanes; j < width; j++) dst[p * width + j] = 0;
        }
        return;
    }
    int64_t quads = kind == F32 && step == 1 ? lanes / 4 * 4 : 0;
    for (int64_t p0 = 0; p0 < depth; p0 += 16) {
        int64_t n = depth - p0 < 16 ? depth - p0 : 16;
        for (int64_t j = 0; j < quads; j += 4) transpose4(dst + p0 * width + j, width, (const float *)src + j * lane + p0, lane, n);
        for (int64_t j = quads; j < width; j++) {
            float column[16] = {0};
            if (j < lanes) widen(column, at(src, kind, j * lane + p0 * step), kind, n, step);
            for (int64_t p = 0; p < n; p++) dst[(p0 + p) * width + j] = column[p];
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
            ALL for (int j = 0; j < NV; j++) sum[i][j] = *(const memvec *)(bias + j * VL);
    if (PREFETCH_C)
        ALL for (int i = 0; i < m; i++)
            ALL for (int j = 0; j < NR; j += 16) __builtin_prefetch(c + i * ldc + j, 1);
    int64_t p = 0;
    UNROLL(UNROLL_K) for (; p + sets <= k; p += sets) {
        ALL for (int s = 0; s < sets; s++) {
            vec bv[NV];
            ALL for (int j = 0; j < NV; j++) bv[j] = *(const memvec *)(b + j * VL);
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
            ALL for (int j = 0; j < NV; j++) sum[i][j] += a[i * row] * *(const memvec *)(b + j * VL);
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

struct job {
    const char *a, *b, *bias;
    char *out;
    enum kind ka, kb, kbias, kout;
    int64_t nb, m, n, k;
    int64_t a0, a1, a2, b0, b1, b2, bias0, o0, o1, o2;
    int packed, direct, dot;          /* b in panels; sums straight into out; dot products */
    int threads;
    int64_t mc, nc, kc, tasks;
    int64_t mats;                     /* different matrices b */
    size_t bias_at, b_at, each_at, each; /* scratch, in floats */
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t parts(int64_t n, int64_t most) { return n > most ? (n + most - 1) / most : 1; }
static int64_t per(int64_t n, int64_t blocks, int64_t to) { return up(n > blocks ? (n + blocks - 1) / blocks : 1, to); }

static void plan_blocks(struct job *j) {
    int64_t mb = parts(j->m, MC), nb = parts(j->n, NC), t = j->threads, all = j->nb * mb * nb;
    if (all % t && t > 1) {
        int64_t want = up(all, t);
        if (SPLIT_N || j->m <= MR)
            nb = (want + j->nb * mb - 1) / (j->nb * mb);
        else
            mb = (want + j->nb * nb - 1) / (j->nb * nb);
    }
    j->mc = per(j->m, mb, MR);
    j->nc = per(j->n, nb, NR);
    j->kc = per(j->k, parts(j->k, j->m <= MR ? 4 * KC : KC), 1);
    j->tasks = j->nb * parts(j->m, j->mc) * parts(j->n, j->nc);
}

NOINLINE int setup(const struct ak_call *call, struct job *j) {
    const DLTensor *a = ak_tensor_arg(call, 0), *b = ak_tensor_arg(call, 1), *bias = ak_tensor_arg(call, 2), *out = ak_tensor_arg(call, 3);
    if (!a || !b || !out || a->ndim != 3 || b->ndim != 3 || out->ndim != 3) return AK_UNSUPPORTED;
    *j = (struct job){.a = ak_data(call, 0), .b = ak_data(call, 1), .bias = ak_data(call, 2), .out = ak_data(call, 3),
                      .ka = kind_of(a), .kb = kind_of(b), .kbias = bias ? kind_of(bias) : F32, .kout = kind_of(out),
                      .nb = out->shape[0], .m = out->shape[1], .n = out->shape[2], .k = a->shape[2],
                      .a0 = a->strides[0], .a1 = a->strides[1], .a2 = a->strides[2],
                      .b0 = b->strides[0], .b1 = b->strides[1], .b2 = b->strides[2], .bias0 = bias ? bias->strides[0] : 0,
                      .o0 = out->strides[0], .o1 = out->strides[1], .o2 = out->strides[2]};
    if (j->ka == OTHER || j->kb == OTHER || j->kbias == OTHER || j->kout == OTHER) return AK_UNSUPPORTED;
    j->mats = j->b0 ? b->shape[0] : 1;
    int constant = PACK_CONSTANT && call->args[1].role == AK_ROLE_CONSTANT;
    int in_place = j->kb == F32 && j->b2 == 1 && j->m < PACK_ROWS;
    j->dot = !constant && j->kb == F32 && j->ka == F32 && j->b1 == 1 && j->a2 == 1 && j->m <= DOT_ROWS;
    j->packed = constant || !(in_place || j->dot);
    j->direct = j->kout == F32 && (j->o2 == 1 || j->n == 1);
    j->threads = (double)j->nb * (double)j->m * (double)j->n * (double)(j->k + 1) < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    plan_blocks(j);
    int64_t panels = up(j->n, NR) / NR;
    j->b_at = (size_t)up(panels * NR, 64);
    /* Without packing, a last part of a panel is still packed. */
    int64_t kept = j->packed ? (constant ? 0 : panels) : j->n % NR ? 1 : 0;
    j->each_at = j->b_at + (size_t)up(j->mats * kept * j->k * NR, 64);
    j->each = (size_t)up(j->mc * j->kc, 64) + (j->direct ? 0 : (size_t)up(j->mc * j->nc, 64));
    return AK_OK;
}

static size_t panel_floats(const struct job *j) { return (size_t)j->k * NR; }

/* Panels [from, panels) of every matrix b, one after another. */
NOINLINE void pack_b(const struct job *j, float *dst, int64_t from) {
    int64_t panels = up(j->n, NR) / NR, each = panels - from;
#pragma omp parallel for num_threads(j->threads) schedule(static)
    for (int64_t t = 0; t < j->mats * each; t++) {
        int64_t col = (from + t % each) * NR, lanes = j->n - col < NR ? j->n - col : NR;
        pack_panel(dst + (size_t)t * panel_floats(j), NR, at(j->b, j->kb, t / each * j->b0 + col * j->b2), j->kb, j->b2, j->b1, lanes, j->k);
    }
}

/* Rows [row, row + m) of a from depth p on, as tile wants them. */
static const float *pack_a(const struct job *j, const char *a, float *to, int64_t m, int64_t k, int64_t *lda) {
    *lda = k;
#if PACK_A
    for (int64_t i = 0; i < m; i += MR)
        pack_panel(to + i * k, MR, at(a, j->ka, i * j->a1), j->ka, j->a1, j->a2, m - i < MR ? m - i : MR, k);
#else
    if (j->ka == F32 && j->a2 == 1) {
        *lda = j->a1;
        return (const float *)a;
    }
    for (int64_t i = 0; i < m; i++) widen(to + i * k, at(a, j->ka, i * j->a1), j->ka, k, j->a2);
#endif
    return to;
}

struct panel {
    const float *b;
    int64_t ldb;
};

static struct panel panel_at(const struct job *j, const float *bpack, int64_t mat, int64_t col) {
    int64_t panels = up(j->n, NR) / NR;
    if (j->packed) return (struct panel){bpack + (size_t)(mat * panels + col / NR) * panel_floats(j), NR};
    if (col + NR > j->n) return (struct panel){bpack + (size_t)mat * panel_floats(j), NR};
    return (struct panel){(const float *)j->b + mat * j->b0 + col, j->b1};
}

/* One strip of rows times one panel; a last part of a panel goes through a whole tile. */
static void meet(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, struct panel b, float *c, int64_t ldc, const float *bias) {
    if (n == NR) {
        strip(m, k, a, lda, b.b, b.ldb, c, ldc, bias);
        return;
    }
    float edge[MR * NR];
    for (int64_t i = 0; i < m && !bias; i++) memcpy(edge + i * NR, c + i * ldc, (size_t)n * 4);
    if (!bias)
        for (int64_t i = 0; i < m; i++)
            for (int64_t q = n; q < NR; q++) edge[i * NR + q] = 0;
    strip(m, k, a, lda, b.b, b.ldb, edge, NR, bias);
    for (int64_t i = 0; i < m; i++) memcpy(c + i * ldc, edge + i * NR, (size_t)n * 4);
}

NOINLINE void task(const struct job *j, int64_t t, const float *bpack, const float *bias, float *own) {
    int64_t mb = parts(j->m, j->mc), nb = parts(j->n, j->nc);
    int64_t col = t % nb * j->nc, row = t / nb % mb * j->mc, mat = t / nb / mb;
    int64_t m = j->m - row < j->mc ? j->m - row : j->mc, n = j->n - col < j->nc ? j->n - col : j->nc;
    float *c = j->direct ? (float *)j->out + mat * j->o0 + row * j->o1 + col : own + up(j->mc * j->kc, 64);
    int64_t ldc = j->direct ? j->o1 : j->nc, p = 0;
    do {
        int64_t k = j->k - p < j->kc ? j->k - p : j->kc, lda;
        const float *a = pack_a(j, at(j->a, j->ka, mat * j->a0 + row * j->a1 + p * j->a2), own, m, k, &lda);
        int64_t strips = (m + MR - 1) / MR, panels = (n + NR - 1) / NR;
        for (int64_t s = 0; s < strips * panels; s++) {
            int64_t i = (ROWS_INNER ? s % strips : s / panels) * MR, q = (ROWS_INNER ? s / strips : s % panels) * NR;
            struct panel b = panel_at(j, bpack, j->b0 ? mat : 0, col + q);
            b.b += p * b.ldb;
            meet(m - i < MR ? m - i : MR, n - q < NR ? n - q : NR, k, a + (PACK_A ? i * k : i * lda), lda, b, c + i * ldc + q, ldc,
                 p ? NULL : bias + col + q);
        }
        p += k;
    } while (p < j->k);
    for (int64_t i = 0; i < m && !j->direct; i++)
        narrow((char *)at(j->out, j->kout, mat * j->o0 + (row + i) * j->o1 + col * j->o2), c + i * ldc, j->kout, n, j->o2);
}

NOINLINE float dot(const float *a, const float *b, int64_t k) {
    vec sum[4] = {0};
    int64_t p = 0;
    for (; p + 4 * VL <= k; p += 4 * VL)
        ALL for (int s = 0; s < 4; s++) sum[s] += *(const memvec *)(a + p + s * VL) * *(const memvec *)(b + p + s * VL);
    vec all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    float f = 0;
    for (int i = 0; i < VL; i++) f += all[i];
    for (; p < k; p++) f += a[p] * b[p];
    return f;
}

static void dots(const struct job *j, const float *bias) {
    int64_t chunk = per(j->n, parts(j->n, NC) > j->threads ? parts(j->n, NC) : j->threads, 1), chunks = parts(j->n, chunk);
#pragma omp parallel for num_threads(j->threads) schedule(SCHEDULE)
    for (int64_t t = 0; t < j->nb * chunks; t++) {
        int64_t mat = t / chunks, from = t % chunks * chunk, end = from + chunk < j->n ? from + chunk : j->n;
        for (int64_t n = from; n < end; n++)
            for (int64_t m = 0; m < j->m; m++) {
                float f = dot((const float *)j->a + mat * j->a0 + m * j->a1, (const float *)j->b + mat * j->b0 + n * j->b2, j->k) + bias[n];
                narrow((char *)at(j->out, j->kout, mat * j->o0 + m * j->o1 + n * j->o2), &f, j->kout, 1, 1);
            }
    }
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    int constant = PACK_CONSTANT && call->args[1].role == AK_ROLE_CONSTANT;
    needs->packed_bytes = constant ? (size_t)(j.mats * up(j.n, NR)) * (size_t)j.k * 4 : 0;
    needs->scratch_bytes = (j.each_at + j.each * (size_t)omp_get_max_threads()) * 4;
    return AK_OK;
}

int ak_prepare(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (PACK_CONSTANT && call->args[1].role == AK_ROLE_CONSTANT) pack_b(&j, call->packed, 0);
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (!j.nb || !j.m || !j.n) return AK_OK;
    float *scratch = call->scratch, *bias = scratch, *bpack = scratch + j.b_at, *each = scratch + j.each_at;
    memset(bias, 0, (size_t)up(j.n, NR) * 4);
    if (j.bias) widen(bias, j.bias, j.kbias, j.n, j.bias0);
    if (j.dot) {
        dots(&j, bias);
        return AK_OK;
    }
    if (PACK_CONSTANT && call->args[1].role == AK_ROLE_CONSTANT)
        bpack = call->packed;
    else if (j.packed)
        pack_b(&j, bpack, 0);
    else if (j.n % NR)
        pack_b(&j, bpack, j.n / NR);
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE, 1)
    for (int64_t t = 0; t < j.tasks; t++) task(&j, t, bpack, bias, each + (size_t)omp_get_thread_num() * j.each);
    return AK_OK;
}
