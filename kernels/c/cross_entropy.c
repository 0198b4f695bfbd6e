/* cross_entropy: loss = -log softmax(logits)[target] of logits [R,V] and int64 targets [R], as it
 * is, its mean or its sum; label_smoothing s mixes in the mean over all classes, and a target of
 * ignore_index counts for nothing. A mean over no targets is NaN, as in ATen.
 *
 * f32, f16 and bf16 logits, any strides, arithmetic in float, the sum over rows in double.
 *
 * The idea: logits are read once. ONLINE finds maximum and sum of exps together, block by block;
 * else a first pass finds the maximum and a second, out of cache, the sum, while the next row is
 * fetched. Where there are fewer rows than threads, a long row is cut into pieces whose maxima and
 * sums are combined. 16-bit and strided logits are widened into scratch a piece at a time.
 *
 * A target outside [0, V) that is not ignore_index gives NaN. */
#include "ak_kernel.h"
#include <float.h>
#include <math.h>
#include <omp.h>

#define PIECE 8192          /* knob tier=1 values=1024,2048,8192,32768 : elements walked twice before the next */
#define ROWS 1              /* knob tier=1 values=1,2,4,16,64 : rows in a task */
#define PREFETCH 0          /* knob tier=2 values=0,64,256,1024 : elements fetched ahead in the first pass, 0 for none */
#define NEXT_PIECE 1        /* knob tier=2 values=0,1 : fetch what comes next while exps are taken */
#define ACC 4               /* knob tier=3 values=1,2,4,8 : independent maxima and sums */
#define ONLINE 0            /* knob tier=4 values=0,1 : find maximum and sum in one pass */
#define SCHEDULE static     /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 16    /* knob tier=4 values=2,8,16,64,256,1024 : thousands of elements worth waking threads */
#define VL 16               /* knob tier=5 values=4,8,16 : lanes of a vector */
#define EXP_SCALEF 1        /* knob tier=5 values=0,1 : scale by 2^n in one instruction where there is AVX-512 */
#define EXP_SPLIT 1         /* knob tier=6 values=0,1 : take ln 2 off in two steps, for the last bit of exp */
#define EXP_DEGREE 6        /* knob tier=6 values=5,6,7 : degree of the polynomial in exp */
#define SPLIT_FROM 32768    /* knob tier=6 values=8192,32768,1000000000 : row length from which few rows are shared by threads */

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, noclone)) /* clones cost a third more time to compile */
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ALL UNROLL(64)
#define STEP (ACC * VL)

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

struct stat {
    float max;  /* at least -FLT_MAX */
    double sum; /* of exp(x - max) */
    double plain; /* the sum of x, which label smoothing wants */
};

static struct stat join(struct stat a, struct stat b) {
    float m = a.max > b.max ? a.max : b.max;
    return (struct stat){m, a.sum * (double)expf(a.max - m) + b.sum * (double)expf(b.max - m), a.plain + b.plain};
}

NOINLINE float row_max(const float *x, int64_t n) {
    vec m[ACC];
    ALL for (int a = 0; a < ACC; a++) m[a] = (vec){0} - FLT_MAX;
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        ALL for (int a = 0; a < ACC; a++) {
            if (PREFETCH) __builtin_prefetch(x + i + a * VL + PREFETCH);
            m[a] = larger(load(x + i + a * VL), m[a]);
        }
    for (; i + VL <= n; i += VL) m[0] = larger(load(x + i), m[0]);
    if (i < n) m[0] = larger(load_part(x + i, n - i), m[0]);
    ALL for (int a = 1; a < ACC; a++) m[0] = larger(m[0], m[a]);
    return max_of(m[0]);
}

/* Long chains of float additions drift: every LONG elements the sums s move on to all. */
#define LONG (64 * STEP)
INLINE void settle(vec *all, vec *s) {
    ALL for (int a = 0; a < ACC; a++) {
        *all += s[a];
        s[a] = (vec){0};
    }
}

/* Maximum, then exps; `next` bytes on is what comes after. */
NOINLINE struct stat two_pass(const float *x, int64_t n) {
    float m = row_max(x, n);
    vec s[ACC], all = {0};
    ALL for (int a = 0; a < ACC; a++) s[a] = (vec){0};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        if (i % LONG == 0) settle(&all, s);
        ALL for (int a = 0; a < ACC; a++) {
            s[a] += exp_le0(load(x + i + a * VL) - m);
            if (NEXT_PIECE) __builtin_prefetch(x + i + a * VL + n, 0, 2);
        }
    }
    for (; i + VL <= n; i += VL) s[0] += exp_le0(load(x + i) - m);
    if (i < n) s[0] += exp_le0(load_part(x + i, n - i) - m);
    settle(&all, s);
    return (struct stat){m, sum_of(all), 0};
}

/* Both in one pass over at most LONG elements, each lane on its own, rescaled once in ACC vectors. */
NOINLINE struct stat one_pass_part(const float *x, int64_t n) {
    vec m = (vec){0} - FLT_MAX, s = {0};
    for (int64_t i = 0; i < n; i += STEP) {
        vec v[ACC], top = m, part = {0};
        ALL for (int a = 0; a < ACC; a++) {
            int64_t left = n - i - a * VL;
            if (PREFETCH) __builtin_prefetch(x + i + a * VL + PREFETCH);
            v[a] = left >= VL ? load(x + i + a * VL) : load_part(x + i + a * VL, left > 0 ? left : 0);
            top = larger(v[a], top);
        }
        ALL for (int a = 0; a < ACC; a++) part += exp_le0(v[a] - top);
        s = s * exp_le0(m - top) + part;
        m = top;
    }
    float max = max_of(m);
    return (struct stat){max, sum_of(s * exp_le0(m - max)), 0};
}

static struct stat one_pass(const float *x, int64_t n) {
    if (n <= LONG) return one_pass_part(x, n);
    struct stat s = {-FLT_MAX, 0, 0};
    for (int64_t i = 0; i < n; i += LONG) s = join(s, one_pass_part(x + i, n - i < LONG ? n - i : LONG));
    return s;
}

NOINLINE double plain_sum(const float *x, int64_t n) {
    double sum = 0;
    int64_t i = 0;
    while (i + VL <= n) {
        vec s = {0};
        for (int k = 0; k < 64 && i + VL <= n; k++, i += VL) s += load(x + i);
        sum += (double)sum_of(s);
    }
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

struct job {
    const char *x;
    const int64_t *target;
    enum kind kx;
    int64_t r, v, x0, x1, t0, ignore;
    double smoothing;
    int threads, share; /* share: threads cut up rows */
};

static struct stat piece_stat(const struct job *j, int64_t row, int64_t from, float *own) {
    int64_t n = j->v - from < PIECE ? j->v - from : PIECE;
    const float *x = (const float *)at(j->x, j->kx, row * j->x0 + from * j->x1);
    if (j->kx != F32 || j->x1 != 1) {
        widen(own, (const char *)x, j->kx, n, j->x1);
        x = own;
    }
    struct stat s = ONLINE ? one_pass(x, n) : two_pass(x, n);
    if (j->smoothing != 0) s.plain = plain_sum(x, n);
    return s;
}

static double row_loss(const struct job *j, int64_t row, struct stat s) {
    int64_t t = j->target[row * j->t0];
    float hit = NAN;
    if (t == j->ignore) return 0;
    if (t >= 0 && t < j->v) widen(&hit, at(j->x, j->kx, row * j->x0 + t * j->x1), j->kx, 1, 1);
    double norm = log(s.sum) + (double)s.max, loss = norm - (double)hit;
    if (j->smoothing == 0) return loss;
    return (1 - j->smoothing) * loss + j->smoothing * (norm - s.plain / (double)j->v);
}

static void row_of_pieces(const struct job *j, int64_t row, double *loss, float *own) {
    struct stat s = {-FLT_MAX, 0, 0};
    if (j->target[row * j->t0] != j->ignore)
        for (int64_t p = 0; p < j->v; p += PIECE) s = join(s, piece_stat(j, row, p, own));
    loss[row] = row_loss(j, row, s);
}

static void shared_row(const struct job *j, int64_t row, double *loss, struct stat *stats, float *each) {
    int64_t pieces = (j->v + PIECE - 1) / PIECE;
    struct stat s = {-FLT_MAX, 0, 0};
#pragma omp parallel for num_threads(j->threads) schedule(SCHEDULE)
    for (int64_t p = 0; p < pieces; p++) stats[p] = piece_stat(j, row, p * PIECE, each + (size_t)omp_get_thread_num() * PIECE);
    for (int64_t p = 0; p < pieces; p++) s = join(s, stats[p]);
    loss[row] = row_loss(j, row, s);
}

static void put(const DLTensor *out, char *p, int64_t i, double value) {
    float f = (float)value;
    narrow(at(p, kind_of(out), i * (out->ndim ? out->strides[0] : 0)), &f, kind_of(out), 1, 1);
}

static int setup(const struct ak_call *call, struct job *j) {
    const DLTensor *x = ak_tensor_arg(call, 0), *t = ak_tensor_arg(call, 1), *out = ak_tensor_arg(call, 2);
    if (!x || !t || !out || x->ndim != 2 || t->ndim != 1 || !ak_is_dtype(t, kDLInt, 64)) return AK_UNSUPPORTED;
    *j = (struct job){.x = ak_data(call, 0), .target = ak_data(call, 1), .kx = kind_of(x), .r = x->shape[0], .v = x->shape[1],
                      .x0 = x->strides[0], .x1 = x->strides[1], .t0 = t->strides[0],
                      .ignore = ak_attr_int(call, "ignore_index", -100), .smoothing = ak_attr_real(call, "label_smoothing", 0)};
    int none = strcmp(ak_attr_enum(call, "reduction", "mean"), "none") == 0;
    if (j->kx == OTHER || kind_of(out) == OTHER || out->ndim != none) return AK_UNSUPPORTED;
    j->threads = (double)j->r * (double)j->v < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    j->share = j->r < j->threads && j->v >= SPLIT_FROM;
    return AK_OK;
}

static size_t loss_bytes(const struct job *j) { return ((size_t)j->r * sizeof(double) + 255) / 256 * 256; }
static size_t stat_bytes(const struct job *j) { return ((size_t)j->v / PIECE + 1) * sizeof(struct stat) / 256 * 256 + 256; }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = 0;
    needs->scratch_bytes = loss_bytes(&j) + stat_bytes(&j) + (size_t)omp_get_max_threads() * PIECE * 4;
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    const DLTensor *out = ak_tensor_arg(call, 2);
    double *loss = call->scratch;
    struct stat *stats = (struct stat *)((char *)call->scratch + loss_bytes(&j));
    float *each = (float *)((char *)stats + stat_bytes(&j));
    for (int64_t row = 0; row < j.r && j.share; row++) shared_row(&j, row, loss, stats, each);
    int64_t tasks = j.share ? 0 : (j.r + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t row = t * ROWS; row < j.r && row < (t + 1) * ROWS; row++)
            row_of_pieces(&j, row, loss, each + (size_t)omp_get_thread_num() * PIECE);
    if (out->ndim) {
        for (int64_t row = 0; row < j.r; row++) put(out, ak_data(call, 2), row, loss[row]);
        return AK_OK;
    }
    double total = 0, count = 0;
    for (int64_t row = 0; row < j.r; row++)
        if (j.target[row * j.t0] != j.ignore) total += loss[row], count++;
    put(out, ak_data(call, 2), 0, strcmp(ak_attr_enum(call, "reduction", "mean"), "sum") == 0 ? total : total / count);
    return AK_OK;
}
