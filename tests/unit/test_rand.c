/* Random numbers: vectors that every device must draw, moments, and that neither threads, strides
 * nor dtypes change what element i is. The vectors were made by another program (Python's
 * integers) from the description in rand.c. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rand.h"
#include "tap.h"

typedef unsigned long long u64;

static void vectors(void) {
    static const struct {
        uint64_t seed, i, u;
    } want[] = {{0, 0, 0x48218226ff3cd4bf},
                {0, 1, 0xa706dd2f4d197e6f},
                {1, 0, 0xdce423fc82c0d5b8},
                {1, 1, 0x5e41ab087439611e},
                {42, 1000000, 0xeb875d5a6b5c7be4},
                {UINT64_MAX, UINT64_MAX, 0x2dfe1aa565b7ff81},
                {0x123456789abcdef, 1ull << 40, 0x7b6de8d4fb07b844}};
    static const float normal[] = {0x1.ddf012p-2f, 0x1.5ad2a8p+0f, -0x1.2dd640p-1f, 0x1.719a78p-2f};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        ok(ak_rand_u64(want[k].seed, want[k].i) == want[k].u, "u64(%#llx, %#llx) is %#llx", (u64)want[k].seed, (u64)want[k].i, (u64)want[k].u);
    for (uint64_t i = 0; i < 4; i++)
        ok(ak_rand_normal(7, i) == normal[i], "normal(7, %d) is %a", (int)i, normal[i]);
    ok(ak_rand_seed(0, "lm_head.weight") == 0xa3ee65640eeeacbe && ak_rand_seed(5, "") == 5, "the seed of a name");
    ok(ak_rand_seed(0, "a") != ak_rand_seed(1, "a") && ak_rand_seed(0, "ab") != ak_rand_seed(0, "ba"), "names and seeds both count");
    ok(ak_rand_secret() != ak_rand_secret(), "a secret is another each time");
}

/* Mean, variance and fourth moment of n samples, within five standard errors; neighbours, in i and in
 * the seed, uncorrelated. */
static void moments(void) {
    enum { N = 4000000 };
    for (uint64_t seed = 0; seed < 4; seed++) {
        double sum = 0, squares = 0, fourth = 0, next = 0, other = 0, uniform = 0, most = 0;
        for (uint64_t i = 0; i < N; i++) {
            double x = ak_rand_normal(seed, i);
            sum += x;
            squares += x * x;
            fourth += x * x * x * x;
            next += x * ak_rand_normal(seed, i + 1);
            other += x * ak_rand_normal(seed + 1, i);
            uniform += ak_rand_uniform(seed, i);
            most = fmax(most, fabs(x));
        }
        double se = 5 / sqrt(N);
        ok(fabs(sum / N) < se && fabs(squares / N - 1) < 1.4 * se, "seed %d: mean %g, variance %g", (int)seed, sum / N, squares / N);
        /* four uniforms: 3 - 1.2 / 4; the fourth power's own deviation is below 5 */
        ok(fabs(fourth / N - 2.7) < 5 * se && most < 3.4642, "seed %d: fourth moment %g, at most %g", (int)seed, fourth / N, most);
        ok(fabs(next / N) < se && fabs(other / N) < se, "seed %d: neighbours are uncorrelated: %g, %g", (int)seed, next / N, other / N);
        ok(fabs(uniform / N - 0.5) < 0.29 * se, "seed %d: uniforms have mean %g", (int)seed, uniform / N);
    }
}

/* A one-bit change of seed or counter flips half of the 64 bits. */
static void avalanche(void) {
    double least = 64, most = 0;
    for (int bit = 0; bit < 64; bit++) {
        double by_seed = 0, by_i = 0;
        for (uint64_t k = 0; k < 4096; k++) {
            uint64_t seed = k * 77, i = k * 1001, u = ak_rand_u64(seed, i);
            by_seed += __builtin_popcountll(u ^ ak_rand_u64(seed ^ 1ull << bit, i)) / 4096.0;
            by_i += __builtin_popcountll(u ^ ak_rand_u64(seed, i ^ 1ull << bit)) / 4096.0;
        }
        least = fmin(least, fmin(by_seed, by_i));
        most = fmax(most, fmax(by_seed, by_i));
    }
    ok(least > 31.5 && most < 32.5, "one bit of seed or counter changes %g to %g of 64", least, most);
}

static void *filled(enum ak_dtype d, int64_t n, int threads, double mean, double std) {
    struct ak_tensor t = ak_tensor_new(d, 1, &n);
    t.data = ak_calloc((size_t)n, ak_dtype_size(d));
    omp_set_num_threads(threads);
    ak_rand_fill_normal(&t, 9, mean, std);
    return t.data;
}

static void fills(void) {
    const int64_t n = 300007;
    for (int d = AK_F64; d <= AK_BF16; d++) {
        for (int wide = 0; wide < 2; wide++) { /* 30000: beyond the largest f16; 1e-6: subnormal in f16 */
            double mean = wide ? 0 : 1e-6, std = wide ? 30000 : 1e-6;
            void *one = filled((enum ak_dtype)d, n, 1, mean, std), *three = filled((enum ak_dtype)d, n, 3, mean, std);
            ok(memcmp(one, three, (size_t)n * ak_dtype_size((enum ak_dtype)d)) == 0, "%s, std %g: one thread or three", ak_dtype_name((enum ak_dtype)d), std);
            int64_t wrong = 0;
            for (int64_t i = 0; i < n; i++) {
                uint64_t w = 0, got = 0;
                ak_store((enum ak_dtype)d, &w, 0, (float)mean + (float)std * ak_rand_normal(9, (uint64_t)i));
                memcpy(&got, (char *)one + (size_t)i * ak_dtype_size((enum ak_dtype)d), ak_dtype_size((enum ak_dtype)d));
                wrong += got != w;
            }
            ok(wrong == 0, "%s, std %g: each is mean + std * normal(seed, i), rounded once", ak_dtype_name((enum ak_dtype)d), std);
            free(one);
            free(three);
        }
    }
}

static void strides(void) {
    float flat[6], padded[16] = {0};
    struct ak_tensor a = ak_tensor_new(AK_F32, 2, (int64_t[]){2, 3}), b = a;
    b.stride[0] = 1, b.stride[1] = 4, b.offset = 2;
    a.data = flat, b.data = padded;
    ak_rand_fill_normal(&a, 3, 0, 1);
    ak_rand_fill_normal(&b, 3, 0, 1);
    bool same = true, clean = padded[0] == 0 && padded[1] == 0 && padded[4] == 0 && padded[5] == 0;
    for (int k = 0; k < 6; k++)
        same = same && ak_get(&a, k) == ak_get(&b, k);
    ok(same && clean, "strided or not, element by logical order, and nothing between");
}

static void ints(void) {
    static const struct {
        enum ak_dtype d;
        int64_t lo, hi;
    } cases[] = {{AK_I64, 0, 7}, {AK_I64, -5, 5}, {AK_I32, 100, 101}, {AK_BOOL, 0, 2}, {AK_U8, 250, 256}, {AK_I64, 3, 3},
                 {AK_I64, INT64_MIN, INT64_MAX}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t n = 70001, count[16] = {0}, least = INT64_MAX, most = INT64_MIN;
        struct ak_tensor t = ak_tensor_new(cases[c].d, 1, &n);
        t.data = ak_calloc((size_t)n, 8);
        ak_rand_fill_int(&t, 11, cases[c].lo, cases[c].hi);
        uint64_t span = (uint64_t)cases[c].hi - (uint64_t)cases[c].lo;
        double far = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t v = ak_load_i64(cases[c].d, t.data, i);
            least = v < least ? v : least;
            most = v > most ? v : most;
            if (span <= 16) count[(v - cases[c].lo) & 15]++;
        }
        for (uint64_t k = 0; k < span && span <= 16; k++)
            far = fmax(far, fabs((double)count[k] - (double)n / (double)span));
        bool full = span > 16 || (least == cases[c].lo && most == cases[c].hi - (span > 0));
        ok(least >= cases[c].lo && (most < cases[c].hi || !span) && full && far < 5 * sqrt((double)n), "%s in [%lld, %lld): all of it, evenly",
           ak_dtype_name(cases[c].d), (long long)cases[c].lo, (long long)cases[c].hi);
        free(t.data);
    }
}

int main(void) {
    vectors();
    moments();
    avalanche();
    fills();
    strides();
    ints();
    return done();
}
