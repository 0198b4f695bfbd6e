/* Order statistics, and that their intervals hold what they promise. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "stats.h"
#include "tap.h"

static double uniform(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 11) * 0x1p-53;
}

/* How often of 4000 the 99% interval of n exponential samples misses the true median. */
static double misses(size_t n) {
    uint64_t s = 7 + n;
    int missed = 0;
    double v[64];
    for (int t = 0; t < 4000; t++) {
        for (size_t i = 0; i < n; i++)
            v[i] = -log(1 - uniform(&s));
        struct ak_interval r = ak_median_interval(v, n, 0.99);
        missed += !(r.low <= log(2) && log(2) <= r.high);
    }
    return missed / 4000.0;
}

int main(void) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {5};
    ok(ak_median(odd, 3) == 2, "median of an odd number");
    ok(ak_median(even, 4) == 2.5, "median of an even number");
    ok(odd[0] == 3, "samples stay as they are");
    ok(ak_quantile(even, 4, 0) == 1 && ak_quantile(even, 4, 1) == 4, "extreme quantiles are the extremes");
    ok(fabs(ak_quantile(even, 4, 0.25) - 1.75) < 1e-12, "quantiles are linear between samples");
    struct ak_interval r = ak_median_interval(one, 1, 0.99);
    ok(r.low == 5 && r.high == 5 && r.median == 5 && r.n == 1, "one sample is its own range");
    double v[30];
    for (int i = 0; i < 30; i++)
        v[i] = i;
    r = ak_median_interval(v, 7, 0.99);
    ok(r.low == 0 && r.high == 6, "7 samples are too few for 99%%: the range");
    r = ak_median_interval(v, 8, 0.99);
    ok(r.low == 0 && r.high == 7, "8 samples: the range is 99.2%%");
    r = ak_median_interval(v, 12, 0.99);
    ok(r.low == 1 && r.high == 10, "12 samples: one dropped at each end (99.4%%)");
    r = ak_median_interval(v, 30, 0.99);
    ok(r.low == 7 && r.high == 22, "30 samples: the 8th and the 23rd, as in the tables");
    static const size_t sizes[] = {8, 15, 31, 60};
    for (size_t i = 0; i < 4; i++)
        ok(misses(sizes[i]) <= 0.015, "%zu samples: the interval misses the median at most about once in 100", sizes[i]);
    double *big = calloc(5000, sizeof *big);
    for (int i = 0; i < 5000; i++)
        big[i] = i;
    r = ak_median_interval(big, 5000, 0.99);
    ok(r.low > 2390 && r.low < 2420 && r.high < 2610 && r.high > 2580, "5000 samples: about 91 ranks to each side");
    free(big);
    return done();
}
