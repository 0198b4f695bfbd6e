/* rmsnorm: out = t / sqrt(mean(t^2) + eps) * weight over the last dim of t = x (+ residual), all
 * [R,C]; t itself goes to sum where that is wanted. weight [C] may be absent.
 *
 * f32, f16 and bf16 storage, any strides, arithmetic in float.
 *
 * The idea: two passes over a row, the second out of cache while the next row is fetched, so that
 * memory is read and written once. Rows that do not lie as a straight line of floats are widened
 * into scratch first, and narrowed from there. */
#include "ak_kernel.h"
#include <math.h>
#include <omp.h>

#define ROWS 4            /* knob tier=1 values=1,2,4,16,64 : rows in a task */
#define NEXT_ROW 1        /* knob tier=2 values=0,1 : fetch the next row while this one is worked on */
#define FETCH_FIRST 0     /* knob tier=2 values=0,25,50,100 : percent of the next row fetched in the first pass, the rest in the last */
#define STREAM_FROM 8     /* knob tier=2 values=0,1,8,32,1000000 : MiB of out from which stores bypass the cache, 0 for never */
#define KEEP 1            /* knob tier=2 values=0,1 : keep x + residual in scratch, or add again in the second pass */
#define ACC 4             /* knob tier=3 values=1,2,4,8 : independent sums */
#define UNROLL_OUT 2      /* knob tier=3 values=1,2,4 : vectors in the body of the second pass */
#define SCHEDULE static   /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 32  /* knob tier=4 values=4,16,32,128,512,2048 : thousands of elements worth waking threads */
#define VL 16             /* knob tier=5 values=4,8,16 : lanes of a vector */
#define HINT 2            /* knob tier=6 values=1,2,3 : how near the next row is fetched, 3 nearest */

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

/* Halves of a vector meet until one lane is left. */
INLINE float sum_of(vec v) {
    ALL for (int w = VL / 2; w; w /= 2)
        ALL for (int i = 0; i < w; i++) v[i] += v[i + w];
    return v[0];
}

/* The term t at i: x, or x + residual. */
INLINE vec term(const float *x, const float *res, int64_t i) { return res ? load(x + i) + load(res + i) : load(x + i); }

INLINE vec term_part(const float *x, const float *res, int64_t i, int64_t n) {
    return res ? load_part(x + i, n - i) + load_part(res + i, n - i) : load_part(x + i, n - i);
}

/* What the next row will need, fetched while this one is worked on. */
struct ahead {
    const char *x, *res;
    int size;
};

INLINE void fetch(struct ahead next, int64_t i) {
    __builtin_prefetch(next.x + i * next.size, 0, HINT);
    if (next.res) __builtin_prefetch(next.res + i * next.size, 0, HINT);
}

/* Long chains of float additions drift: every LONG elements the sums s move on to all. */
#define LONG (64 * STEP)
INLINE void settle(vec *all, vec *s) {
    ALL for (int a = 0; a < ACC; a++) {
        *all += s[a];
        s[a] = (vec){0};
    }
}

/* The sum of t^2. t goes to keep unless that is NULL. */
INLINE float squares(const float *x, const float *res, float *keep, int64_t n, struct ahead next) {
    vec s[ACC], all = {0};
    ALL for (int a = 0; a < ACC; a++) s[a] = (vec){0};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        if (i % LONG == 0) settle(&all, s);
        ALL for (int a = 0; a < ACC; a++) {
            vec t = term(x, res, i + a * VL);
            if (keep) store(keep + i + a * VL, t);
            if (NEXT_ROW && i < n * FETCH_FIRST / 100) fetch(next, i + a * VL);
            s[a] += t * t;
        }
    }
    for (; i < n; i += VL) {
        int64_t left = n - i < VL ? n - i : VL;
        vec t = term_part(x, res, i, i + left);
        if (keep) store_part(keep + i, t, left);
        s[0] += t * t;
    }
    settle(&all, s);
    return sum_of(all);
}

/* out = t * scale * w and sum = t, where sum is wanted. */
INLINE void write_row(const float *x, const float *res, const float *w, float *out, float *sum, int64_t n, float scale, int bypass, struct ahead next) {
    int64_t i = 0;
    int bypass_sum = 0;
    if (bypass) {
        int64_t head = (int64_t)(-((uintptr_t)out / 4) % VL);
        i = head < n ? head : n;
        bypass_sum = sum && (uintptr_t)(sum + i) % (4 * VL) == 0;
        vec t = term_part(x, res, 0, i);
        store_part(out, t * scale * load_part(w, i), i);
        if (sum) store_part(sum, t, i);
    }
    UNROLL(UNROLL_OUT) for (; i + VL <= n; i += VL) {
        vec t = term(x, res, i), v = t * scale * load(w + i);
        if (NEXT_ROW && i >= n * FETCH_FIRST / 100) fetch(next, i);
        if (bypass)
            stream(out + i, v);
        else
            store(out + i, v);
        if (bypass_sum)
            stream(sum + i, t);
        else if (sum)
            store(sum + i, t);
    }
    if (bypass) stream_end();
    if (i < n) {
        vec t = term_part(x, res, i, n);
        store_part(out + i, t * scale * load_part(w + i, n - i), n - i);
        if (sum) store_part(sum + i, t, n - i);
    }
}

struct rows {
    char *p;
    enum kind kind;
    int64_t row, col;
};

struct job {
    struct rows x, res, out, sum; /* p is NULL where absent */
    const float *w;
    int64_t r, c;
    float eps;
    int bypass, threads;
};

static int straight(const struct rows *t) { return t->kind == F32 && t->col == 1; }
static char *row_at(const struct rows *t, int64_t row) { return at(t->p, t->kind, row * t->row); }

/* A row as a straight line of floats, widened into `own` if it is not one. */
static const float *line(const struct rows *t, int64_t row, int64_t n, float *own) {
    if (!t->p || straight(t)) return t->p ? (const float *)row_at(t, row) : NULL;
    widen(own, row_at(t, row), t->kind, n, t->col);
    return own;
}

/* own is read before it is written, element by element: it may hold x, t and out in turn. */
static void one_row(const struct job *j, int64_t row, float *own, float *own2) {
    const float *x = line(&j->x, row, j->c, own), *res = line(&j->res, row, j->c, own2);
    int out_straight = straight(&j->out), sum_straight = j->sum.p && straight(&j->sum), sum_narrow = j->sum.p && !sum_straight;
    float *sum = sum_straight ? (float *)row_at(&j->sum, row) : NULL, *out = out_straight ? (float *)row_at(&j->out, row) : own;
    struct ahead next = {row_at(&j->x, row + 1), res ? row_at(&j->res, row + 1) : NULL, j->x.kind == F32 ? 4 : 2};
    float total;
    if (res && (KEEP || sum_narrow)) {
        total = squares(x, res, own, j->c, next);
        x = own;
        res = NULL;
    } else {
        total = res ? squares(x, res, NULL, j->c, next) : squares(x, NULL, NULL, j->c, next);
    }
    if (sum_narrow) narrow(row_at(&j->sum, row), x, j->sum.kind, j->c, j->sum.col);
    float scale = 1 / sqrtf(total / (float)j->c + j->eps);
    if (res)
        write_row(x, res, j->w, out, sum, j->c, scale, j->bypass && out_straight, next);
    else
        write_row(x, NULL, j->w, out, sum, j->c, scale, j->bypass && out_straight, next);
    if (!out_straight) narrow(row_at(&j->out, row), own, j->out.kind, j->c, j->out.col);
}

static struct rows rows_of(const struct ak_call *call, uint32_t i) {
    const DLTensor *t = ak_tensor_arg(call, i);
    if (!t) return (struct rows){0};
    return (struct rows){ak_data(call, i), t->ndim == 2 ? kind_of(t) : OTHER, t->ndim == 2 ? t->strides[0] : 0, t->ndim == 2 ? t->strides[1] : 0};
}

static int setup(const struct ak_call *call, struct job *j) {
    const DLTensor *x = ak_tensor_arg(call, 0), *w = ak_tensor_arg(call, 2);
    if (!x || x->ndim != 2 || !ak_tensor_arg(call, 3)) return AK_UNSUPPORTED;
    *j = (struct job){.x = rows_of(call, 0), .res = rows_of(call, 1), .out = rows_of(call, 3), .sum = rows_of(call, 4),
                      .r = x->shape[0], .c = x->shape[1], .eps = (float)ak_attr_real(call, "eps", 1e-6)};
    if (j->x.kind == OTHER || j->res.kind == OTHER || j->out.kind == OTHER || j->sum.kind == OTHER || (w && kind_of(w) == OTHER))
        return AK_UNSUPPORTED;
    double n = (double)j->r * (double)j->c;
    j->bypass = STREAM_FROM && n * 4 >= STREAM_FROM * 1048576.0;
    j->threads = n < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    return AK_OK;
}

static size_t line_floats(const struct job *j) { return ((size_t)j->c + 63) / 64 * 64; }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = 0;
    needs->scratch_bytes = line_floats(&j) * (1 + 2 * (size_t)omp_get_max_threads()) * 4;
    return AK_OK;
}

/* A vector of C as floats; where it is absent, `otherwise` all over. */
static const float *floats(const struct ak_call *call, uint32_t i, int64_t n, float otherwise, float *own) {
    const DLTensor *t = ak_tensor_arg(call, i);
    if (t && kind_of(t) == F32 && t->strides[0] == 1) return ak_data(call, i);
    for (int64_t k = 0; k < n && !t; k++) own[k] = otherwise;
    if (t) widen(own, ak_data(call, i), kind_of(t), n, t->strides[0]);
    return own;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    if (!j.r || !j.c) return AK_OK;
    float *scratch = call->scratch;
    size_t n = line_floats(&j);
    j.w = floats(call, 2, j.c, 1, scratch);
    int64_t tasks = (j.r + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE)
    for (int64_t t = 0; t < tasks; t++) {
        float *own = scratch + n * (1 + 2 * (size_t)omp_get_thread_num());
        for (int64_t row = t * ROWS; row < j.r && row < (t + 1) * ROWS; row++) one_row(&j, row, own, own + n);
    }
    return AK_OK;
}
