/* softmax: out = softmax(x) over the last dim of x [R,C]; with attr log, its logarithm.
 *
 * f32, f16 and bf16 storage, any strides, arithmetic in float. A row of -inf, or one holding a NaN
 * or +inf, gives NaN as in ATen.
 *
 * The idea: memory should be read and written once. Rows short enough to stay in cache take one
 * pass for the maximum, one for exp and its sum, one for the scale; ONLINE joins the first two by
 * rescaling running sums, for rows that do not stay. Where there are fewer rows than threads, a
 * long row is cut into pieces whose maxima and sums are combined. Rows that do not lie as a
 * straight line of floats are widened into scratch first.
 *
 * Limits: exp below the least normal number is 0. */
#include "ak_kernel.h"
#include <float.h>
#include <math.h>
#include <omp.h>

#define ROWS 4            /* knob tier=1 values=1,2,4,16,64 : rows in a task */
#define PIECE 8192        /* knob tier=1 values=2048,8192,32768 : elements in a piece of a row that threads share */
#define PREFETCH 0        /* knob tier=2 values=0,64,256,1024 : elements fetched ahead in the first pass, 0 for none */
#define NEXT_ROW 1        /* knob tier=2 values=0,1 : fetch the next row while exps of this one are taken */
#define STREAM_FROM 8     /* knob tier=2 values=0,1,8,32,1000000 : MiB of out from which stores bypass the cache */
#define KEEP 1            /* knob tier=2 values=0,1 : keep exps in scratch, or in out, until the sum is known */
#define ACC 4             /* knob tier=3 values=1,2,4,8 : independent maxima and sums */
#define ONLINE 0          /* knob tier=4 values=0,1 : find maximum and sum in one pass, then take exp again */
#define SCHEDULE static   /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 16  /* knob tier=4 values=2,8,16,64,256,1024 : thousands of elements worth waking threads */
#define VL 16             /* knob tier=5 values=4,8,16 : lanes of a vector */
#define EXP_SCALEF 1      /* knob tier=5 values=0,1 : scale by 2^n in one instruction where there is AVX-512 */
#define EXP_SPLIT 1       /* knob tier=6 values=0,1 : take ln 2 off in two steps, for the last bit of exp */
#define EXP_DEGREE 6      /* knob tier=6 values=5,6,7 : degree of the polynomial in exp */
#define SPLIT_FROM 32768  /* knob tier=6 values=8192,32768,1000000000 : row length from which threads share a row */

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

/* Maxima start from the least float, so that x - max is never inf - inf in a padded lane; a row of
 * -inf then has the sum 0, and 0/0 is the NaN that it must give. */
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

/* The sum of exp(x - m), which also goes to e unless that is NULL; the next row is `next` on. */
INLINE float exps(const float *x, float m, int64_t n, float *e, int64_t next) {
    vec s[ACC], all = {0}, y;
    ALL for (int a = 0; a < ACC; a++) s[a] = (vec){0};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        if (i % LONG == 0) settle(&all, s);
        ALL for (int a = 0; a < ACC; a++) {
            s[a] += y = exp_le0(load(x + i + a * VL) - m);
            if (NEXT_ROW) __builtin_prefetch(x + i + a * VL + next, 0, 2);
            if (e) store(e + i + a * VL, y);
        }
    }
    for (; i + VL <= n; i += VL) {
        s[0] += y = exp_le0(load(x + i) - m);
        if (e) store(e + i, y);
    }
    if (i < n) {
        s[0] += y = exp_le0(load_part(x + i, n - i) - m);
        if (e) store_part(e + i, y, n - i);
    }
    settle(&all, s);
    return sum_of(all);
}

struct stat {
    float max;
    double sum; /* of exp(x - max) */
};

static struct stat join(struct stat a, struct stat b) {
    float m = a.max > b.max ? a.max : b.max;
    return (struct stat){m, a.sum * (double)expf(a.max - m) + b.sum * (double)expf(b.max - m)};
}

/* Both in one pass over at most LONG elements, each lane on its own, rescaled once in ACC vectors. */
NOINLINE struct stat online_part(const float *x, int64_t n) {
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
    return (struct stat){max, sum_of(s * exp_le0(m - max))};
}

static struct stat online(const float *x, int64_t n) {
    if (n <= LONG) return online_part(x, n);
    struct stat s = {-FLT_MAX, 0};
    for (int64_t i = 0; i < n; i += LONG) s = join(s, online_part(x + i, n - i < LONG ? n - i : LONG));
    return s;
}

NOINLINE struct stat two_pass(const float *x, int64_t n) {
    float m = row_max(x, n);
    return (struct stat){m, exps(x, m, n, NULL, 0)};
}

enum last { SCALE, EXP, LOG };

INLINE vec last(vec v, enum last how, float m, float k) { return how == SCALE ? v * k : how == EXP ? exp_le0(v - m) * k : v - m - k; }

/* The last pass over a line: dst = e * k, exp(x - m) * k or x - m - k. */
INLINE void finish(const float *src, float *dst, int64_t n, enum last how, float m, float k, int bypass) {
    int64_t i = 0;
    if (bypass) {
        int64_t head = (int64_t)(-((uintptr_t)dst / 4) % VL);
        head = head < n ? head : n;
        store_part(dst, last(load_part(src, head), how, m, k), head);
        for (i = head; i + VL <= n; i += VL) stream(dst + i, last(load(src + i), how, m, k));
        stream_end();
    } else {
        UNROLL(2) for (; i + VL <= n; i += VL) store(dst + i, last(load(src + i), how, m, k));
    }
    if (i < n) store_part(dst + i, last(load_part(src + i, n - i), how, m, k), n - i);
}

struct job {
    const char *x;
    char *out;
    enum kind kx, ko;
    int64_t r, c, x0, x1, o0, o1;
    int log, bypass, threads;
    int64_t pieces; /* of a row, where threads share it */
};

/* n elements of a row as a straight line of floats. */
static const float *line(const struct job *j, int64_t row, int64_t from, int64_t n, float *own) {
    const char *x = at(j->x, j->kx, row * j->x0 + from * j->x1);
    if (j->kx == F32 && j->x1 == 1) return (const float *)x;
    widen(own, x, j->kx, n, j->x1);
    return own;
}

static float *out_line(const struct job *j, int64_t row, int64_t from) {
    return j->ko == F32 && j->o1 == 1 ? (float *)at(j->out, F32, row * j->o0 + from) : NULL;
}

static void finish_line(const struct job *j, int64_t row, int64_t from, int64_t n, const float *src, enum last how, struct stat s, float *own) {
    float *out = out_line(j, row, from), *dst = out ? out : own;
    int bypass = j->bypass && out;
    if (how == LOG)
        finish(src, dst, n, LOG, s.max, logf((float)s.sum), bypass);
    else if (how == EXP)
        finish(src, dst, n, EXP, s.max, (float)(1 / s.sum), bypass);
    else
        finish(src, dst, n, SCALE, 0, (float)(1 / s.sum), bypass);
    if (!out) narrow(at(j->out, j->ko, row * j->o0 + from * j->o1), own, j->ko, n, j->o1);
}

static void whole_row(const struct job *j, int64_t row, float *own) {
    const float *x = line(j, row, 0, j->c, own);
    if (ONLINE || j->log) {
        finish_line(j, row, 0, j->c, x, j->log ? LOG : EXP, ONLINE ? online(x, j->c) : two_pass(x, j->c), own);
        return;
    }
    float *out = out_line(j, row, 0), *e = KEEP || !out ? own : out;
    struct stat s = {.max = row_max(x, j->c)};
    s.sum = exps(x, s.max, j->c, e, j->x0);
    finish_line(j, row, 0, j->c, e, SCALE, s, own);
}

/* Rows fewer than threads: every row in pieces, first their statistics, then the rest. */
static void shared_rows(const struct job *j, struct stat *stats, float *each) {
#pragma omp parallel num_threads(j->threads)
    for (int64_t row = 0; row < j->r; row++) {
        float *own = each + (size_t)omp_get_thread_num() * PIECE;
        struct stat all = {-FLT_MAX, 0};
#pragma omp for schedule(static)
        for (int64_t p = 0; p < j->pieces; p++) {
            int64_t n = j->c - p * PIECE < PIECE ? j->c - p * PIECE : PIECE;
            const float *x = line(j, row, p * PIECE, n, own);
            stats[p] = ONLINE ? online(x, n) : two_pass(x, n);
        }
        for (int64_t p = 0; p < j->pieces; p++) all = join(all, stats[p]);
#pragma omp for schedule(static)
        for (int64_t p = 0; p < j->pieces; p++) {
            int64_t n = j->c - p * PIECE < PIECE ? j->c - p * PIECE : PIECE;
            finish_line(j, row, p * PIECE, n, line(j, row, p * PIECE, n, own), j->log ? LOG : EXP, all, own);
        }
    }
}

static int setup(const struct ak_call *call, struct job *j) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    if (!x || !out || x->ndim != 2 || out->ndim != 2) return AK_UNSUPPORTED;
    *j = (struct job){.x = ak_data(call, 0), .out = ak_data(call, 1), .kx = kind_of(x), .ko = kind_of(out),
                      .r = x->shape[0], .c = x->shape[1], .x0 = x->strides[0], .x1 = x->strides[1],
                      .o0 = out->strides[0], .o1 = out->strides[1], .log = ak_attr_int(call, "log", 0) != 0};
    if (j->kx == OTHER || j->ko == OTHER) return AK_UNSUPPORTED;
    double n = (double)j->r * (double)j->c;
    j->bypass = STREAM_FROM && n * 4 >= STREAM_FROM * 1048576.0;
    j->threads = n < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    j->pieces = j->r < j->threads && j->c >= SPLIT_FROM ? (j->c + PIECE - 1) / PIECE : 0;
    return AK_OK;
}

static size_t stat_floats(const struct job *j) { return ((size_t)j->pieces * sizeof(struct stat) / 4 + 63) / 64 * 64; }
static size_t own_floats(const struct job *j) { return j->pieces ? PIECE : ((size_t)j->c + 63) / 64 * 64; }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = 0;
    needs->scratch_bytes = (stat_floats(&j) + own_floats(&j) * (size_t)omp_get_max_threads()) * 4;
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (!j.r || !j.c) return AK_OK;
    float *each = (float *)call->scratch + stat_floats(&j);
    if (j.pieces) {
        shared_rows(&j, call->scratch, each);
        return AK_OK;
    }
    int64_t tasks = (j.r + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t row = t * ROWS; row < j.r && row < (t + 1) * ROWS; row++)
            whole_row(&j, row, each + (size_t)omp_get_thread_num() * own_floats(&j));
    return AK_OK;
}
