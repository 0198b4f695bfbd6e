/* reduce: out [O,I] = sum, mean, amax, amin or prod over the middle dim of x [O,C,I].
 *
 * f32, f16 and bf16 storage, any strides. Sums are vectors of floats over a piece of C and doubles
 * from piece to piece; products are doubles. A NaN makes amax and amin NaN, as in ATen.
 *
 * The idea: where I is the straight line, a few vectors of columns go down some rows in registers and
 * then into a band of doubles; otherwise every output is a row reduction, piece by piece. Outputs too few for the threads have C
 * cut up among them. What does not lie as a straight line of floats is widened into scratch.
 *
 * Limits: amax and amin of nothing are refused. */
#include "ak_kernel.h"
#include <math.h>
#include <omp.h>

#define PIECE 1024         /* knob tier=1 values=256,512,1024,4096 : elements of C between visits to the doubles */
#define BAND 1024          /* knob tier=1 values=256,1024,4096 : most columns in a task */
#define DOWN 32            /* knob tier=1 values=16,32,64,256 : rows that columns go down between visits to the doubles */
#define COLUMNS 4          /* knob tier=1 values=1,2,4,8,16 : vectors of columns that go down C together */
#define PREFETCH 0         /* knob tier=2 values=0,128,512,2048 : elements fetched ahead along a row, 0 for none */
#define PREFETCH_DOWN 0    /* knob tier=2 values=0,2,8,16 : rows fetched ahead down the columns, 0 for none */
#define ACC 8              /* knob tier=3 values=1,2,4,8 : independent accumulators along a row */
#define UNROLL_DOWN 2      /* knob tier=3 values=1,2,4 : rows in the body of the loop down the columns */
#define TASKS 4            /* knob tier=4 values=1,2,4,16 : tasks a thread should have before C is left whole */
#define SCHEDULE static    /* knob tier=4 values=static,dynamic : how tasks go to threads */
#define PARALLEL_FROM 64   /* knob tier=4 values=8,32,64,256,1024,4096 : thousands of elements worth waking threads */
#define VL 16              /* knob tier=5 values=4,8,16 : lanes of a vector */
#define LINES 1            /* knob tier=6 values=1,4,16,64 : row reductions in a task */
/* constraint BAND % (COLUMNS * VL) == 0 */

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, noclone)) /* clones cost a third more time to compile */
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ALL UNROLL(64)
#define STEP (ACC * VL)
#define WIDTH (COLUMNS * VL)

_Static_assert(BAND % WIDTH == 0, "a band is whole groups of columns");

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

enum op { SUM, MAX_OF, PROD };

/* Lanes from n on are `fill`, which leaves a result as it is. */
INLINE vec load_part(const float *p, int64_t n, float fill) {
    vec v = (vec){0} + fill;
#if MASKS
    return LOAD_PART(p, v, (1u << n) - 1);
#else
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

/* Halves of a vector meet until one lane is left. */
INLINE float fold(vec v, enum op op) {
    ALL for (int w = VL / 2; w; w /= 2)
        ALL for (int i = 0; i < w; i++) v[i] = op == SUM ? v[i] + v[i + w] : v[i] > v[i + w] ? v[i] : v[i + w];
    return v[0];
}

INLINE int any(ivec v) {
    int64_t w[VL / 2], all = 0;
    memcpy(w, &v, sizeof w);
    ALL for (int i = 0; i < VL / 2; i++) all |= w[i];
    return all != 0;
}

/* A maximum forgets a NaN, so NaNs are kept count of beside it. sign -1 turns it into a minimum. */
INLINE void meet(vec *a, ivec *nan, vec v, enum op op, float sign) {
    if (op == SUM) {
        *a += v;
    } else {
        v *= sign;
        *a = larger(v, *a);
        *nan |= v != v;
    }
}

INLINE float row_piece(const float *x, int64_t n, enum op op, float sign) {
    float none = op == SUM ? 0 : -INFINITY;
    vec a[ACC];
    ivec nan[ACC];
    ALL for (int k = 0; k < ACC; k++) a[k] = (vec){0} + none, nan[k] = (ivec){0};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        ALL for (int k = 0; k < ACC; k++) {
            if (PREFETCH) __builtin_prefetch(x + i + k * VL + PREFETCH);
            meet(&a[k], &nan[k], load(x + i + k * VL), op, sign);
        }
    for (; i + VL <= n; i += VL) meet(&a[0], &nan[0], load(x + i), op, sign);
    if (i < n) meet(&a[0], &nan[0], load_part(x + i, n - i, op == SUM ? 0 : -INFINITY * sign), op, sign);
    ALL for (int k = 1; k < ACC; k++) {
        a[0] = op == SUM ? a[0] + a[k] : larger(a[0], a[k]);
        nan[0] |= nan[k];
    }
    return op != SUM && any(nan[0]) ? NAN : fold(a[0], op);
}

NOINLINE float row_sum(const float *x, int64_t n) { return row_piece(x, n, SUM, 1); }
NOINLINE float row_max(const float *x, int64_t n, float sign) { return row_piece(x, n, MAX_OF, sign); }

NOINLINE double row_prod(const float *x, int64_t n) {
    double p[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) p[k] *= (double)x[i + k];
    for (; i < n; i++) p[0] *= (double)x[i];
    return ((p[0] * p[1]) * (p[2] * p[3])) * ((p[4] * p[5]) * (p[6] * p[7]));
}

/* WIDTH columns down `rows` rows, into `out`. */
INLINE void column_piece(const float *x, int64_t stride, int64_t rows, float *out, enum op op, float sign) {
    vec a[COLUMNS];
    ivec nan[COLUMNS];
    ALL for (int k = 0; k < COLUMNS; k++) a[k] = (vec){0} + (op == SUM ? 0 : -INFINITY), nan[k] = (ivec){0};
    UNROLL(UNROLL_DOWN) for (int64_t r = 0; r < rows; r++, x += stride)
        ALL for (int k = 0; k < COLUMNS; k++) {
            if (PREFETCH_DOWN) __builtin_prefetch(x + k * VL + PREFETCH_DOWN * stride);
            meet(&a[k], &nan[k], load(x + k * VL), op, sign);
        }
    ALL for (int k = 0; k < COLUMNS; k++) store(out + k * VL, op == SUM ? a[k] : (vec)((ivec)a[k] | nan[k]));
}

NOINLINE void column_sum(const float *x, int64_t stride, int64_t rows, float *out) { column_piece(x, stride, rows, out, SUM, 1); }
NOINLINE void column_max(const float *x, int64_t stride, int64_t rows, float *out, float sign) { column_piece(x, stride, rows, out, MAX_OF, sign); }

struct job {
    const char *x;
    char *out;
    enum kind kx, ko;
    enum op op;
    float sign;
    int64_t o, c, i, x0, x1, x2, o0, o1;
    int mean, columns, threads;
    int64_t blocks, cut, cuts; /* blocks of columns or rows; C is cut into `cuts` pieces of at most `cut` */
};

static double join(const struct job *j, double a, double b) {
    if (j->op == SUM) return a + b;
    if (j->op == PROD) return a * b;
    return b > a || b != b ? b : a; /* once NaN, b > a is false and it stays */
}

static double start(const struct job *j) { return j->op == SUM ? 0 : j->op == PROD ? 1 : -INFINITY; }

/* One output over C from `from` to `end`. */
static double row_part(const struct job *j, int64_t o, int64_t i, int64_t from, int64_t end, float *own) {
    double all = start(j);
    for (int64_t c = from; c < end; c += PIECE) {
        int64_t n = end - c < PIECE ? end - c : PIECE;
        const float *x = (const float *)at(j->x, j->kx, o * j->x0 + c * j->x1 + i * j->x2);
        if (j->kx != F32 || j->x1 != 1) {
            widen(own, (const char *)x, j->kx, n, j->x1);
            x = own;
        }
        all = join(j, all, j->op == SUM ? row_sum(x, n) : j->op == PROD ? row_prod(x, n) : row_max(x, n, j->sign));
    }
    return all;
}

static void join_line(const struct job *j, double *total, const float *part, int64_t n) {
    if (j->op == SUM)
        for (int64_t k = 0; k < n; k++) total[k] += (double)part[k];
    else if (j->op == PROD)
        for (int64_t k = 0; k < n; k++) total[k] *= (double)part[k];
    else
        for (int64_t k = 0; k < n; k++) total[k] = join(j, total[k], (double)part[k]);
}

/* At most WIDTH columns down some rows; what is not WIDTH floats is widened first. */
static void column_group(const struct job *j, const char *x, int64_t n, int64_t rows, double *total, float *own) {
    float part[WIDTH];
    int64_t stride = j->x1;
    const float *p = (const float *)x;
    if (j->kx != F32 || n < WIDTH) {
        for (int64_t r = 0; r < rows; r++) widen(own + r * WIDTH, at(x, j->kx, r * j->x1), j->kx, n, 1);
        for (int64_t r = 0; r < rows && n < WIDTH; r++) memset(own + r * WIDTH + n, 0, (size_t)(WIDTH - n) * 4);
        p = own;
        stride = WIDTH;
    }
    if (j->op == PROD) {
        for (int64_t r = 0; r < rows; r++) join_line(j, total, p + r * stride, n);
        return;
    }
    if (j->op == SUM)
        column_sum(p, stride, rows, part);
    else
        column_max(p, stride, rows, part, j->sign);
    join_line(j, total, part, n);
}

static void band_part(const struct job *j, int64_t o, int64_t i, int64_t n, int64_t from, int64_t end, double *total, float *own) {
    for (int64_t k = 0; k < n; k++) total[k] = start(j);
    for (int64_t c = from; c < end; c += DOWN)
        for (int64_t k = 0; k < n; k += WIDTH)
            column_group(j, at(j->x, j->kx, o * j->x0 + c * j->x1 + i + k), n - k < WIDTH ? n - k : WIDTH, end - c < DOWN ? end - c : DOWN,
                         total + k, own);
}

/* Outputs [i, i + n) of o. */
static void put(const struct job *j, int64_t o, int64_t i, int64_t n, const double *value, float *own) {
    if (j->mean)
        for (int64_t k = 0; k < n; k++) own[k] = (float)(value[k] / (double)j->c);
    else
        for (int64_t k = 0; k < n; k++) own[k] = (float)(value[k] * (double)j->sign);
    narrow(at(j->out, j->ko, o * j->o0 + i * j->o1), own, j->ko, n, j->o1);
}

/* Task t: a band of columns, or LINES row reductions, over one cut of C. */
static void task(const struct job *j, int64_t t, double *partial, double *band) {
    int64_t cut = t % j->cuts, from = cut * j->cut, end = from + j->cut < j->c ? from + j->cut : j->c, block = t / j->cuts;
    double *keep = j->cuts > 1 ? partial + cut * j->o * j->i : NULL;
    float *own = (float *)(band + BAND);
    if (j->columns) {
        int64_t bands = (j->i + BAND - 1) / BAND, o = block / bands, i = block % bands * BAND, n = j->i - i < BAND ? j->i - i : BAND;
        band_part(j, o, i, n, from, end, keep ? keep + o * j->i + i : band, own);
        if (!keep) put(j, o, i, n, band, own);
        return;
    }
    for (int64_t k = block * LINES; k < j->o * j->i && k < (block + 1) * LINES; k++) {
        double v = row_part(j, k / j->i, k % j->i, from, end, own);
        if (keep)
            keep[k] = v;
        else
            put(j, k / j->i, k % j->i, 1, &v, own);
    }
}

static int set_op(struct job *j, const char *op) {
    static const struct {
        const char *name;
        enum op op;
        float sign;
        int mean;
    } table[] = {{"sum", SUM, 1, 0}, {"mean", SUM, 1, 1}, {"amax", MAX_OF, 1, 0}, {"amin", MAX_OF, -1, 0}, {"prod", PROD, 1, 0}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (strcmp(op, table[k].name) == 0) {
            j->op = table[k].op;
            j->sign = table[k].sign;
            j->mean = table[k].mean;
            return AK_OK;
        }
    return AK_UNSUPPORTED;
}

static int setup(const struct ak_call *call, struct job *j) {
    const DLTensor *x = ak_tensor_arg(call, 0), *out = ak_tensor_arg(call, 1);
    if (!x || !out || x->ndim != 3 || out->ndim != 2) return AK_UNSUPPORTED;
    *j = (struct job){.x = ak_data(call, 0), .out = ak_data(call, 1), .kx = kind_of(x), .ko = kind_of(out),
                      .o = x->shape[0], .c = x->shape[1], .i = x->shape[2], .x0 = x->strides[0], .x1 = x->strides[1], .x2 = x->strides[2],
                      .o0 = out->strides[0], .o1 = out->strides[1]};
    if (j->kx == OTHER || j->ko == OTHER || set_op(j, ak_attr_enum(call, "op", "sum")) || (j->op == MAX_OF && j->c == 0)) return AK_UNSUPPORTED;
    j->columns = j->i > 1 && j->x2 == 1;
    j->blocks = j->columns ? j->o * ((j->i + BAND - 1) / BAND) : (j->o * j->i + LINES - 1) / LINES;
    j->threads = (double)j->o * (double)j->c * (double)j->i < PARALLEL_FROM * 1000.0 ? 1 : omp_get_max_threads();
    j->cut = j->c;
    if (j->threads > 1 && j->blocks && j->blocks < j->threads * TASKS) {
        int64_t cuts = (j->threads * TASKS + j->blocks - 1) / j->blocks;
        j->cut = ((j->c + cuts - 1) / cuts + 255) / 256 * 256;
    }
    j->cuts = j->cut < j->c ? (j->c + j->cut - 1) / j->cut : 1;
    return AK_OK;
}

static size_t partial_bytes(const struct job *j) { return j->cuts > 1 ? ((size_t)(j->cuts * j->o * j->i) * sizeof(double) + 255) / 256 * 256 : 0; }
#define MOST(a, b) ((a) > (b) ? (a) : (b))
/* Of a thread: a band of doubles, then floats for a piece, a widened group or a band of results. */
#define OWN_BYTES ((size_t)BAND * 8 + (size_t)MOST(MOST(PIECE, BAND), DOWN * WIDTH) * 4)

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    needs->packed_bytes = 0;
    needs->scratch_bytes = partial_bytes(&j) + OWN_BYTES * (size_t)omp_get_max_threads();
    return AK_OK;
}

int ak_launch(const struct ak_call *call) {
    struct job j;
    if (setup(call, &j)) return AK_UNSUPPORTED;
    double *partial = call->scratch;
    char *each = (char *)call->scratch + partial_bytes(&j);
#pragma omp parallel for num_threads(j.threads) schedule(SCHEDULE)
    for (int64_t t = 0; t < j.blocks * j.cuts; t++) task(&j, t, partial, (double *)(each + OWN_BYTES * (size_t)omp_get_thread_num()));
    double *all = partial;
    for (int64_t cut = 1; cut < j.cuts; cut++)
        for (int64_t k = 0; k < j.o * j.i; k++) all[k] = join(&j, all[k], partial[cut * j.o * j.i + k]);
    for (int64_t k = 0; j.cuts > 1 && k < j.o * j.i; k++) {
        float own;
        put(&j, k / j.i, k % j.i, 1, all + k, &own);
    }
    return AK_OK;
}
