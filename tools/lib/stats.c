#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted(const double *v, size_t n) {
    double *s = ak_memdup(v, n * sizeof *s);
    qsort(s, n, sizeof *s, ascending);
    return s;
}

static double at(const double *s, size_t n, double q) {
    double pos = q * (double)(n - 1);
    size_t i = (size_t)pos;
    return i + 1 < n ? s[i] + (pos - (double)i) * (s[i + 1] - s[i]) : s[n - 1];
}

double ak_quantile(const double *v, size_t n, double q) {
    double *s = sorted(v, n), r = at(s, n, q);
    free(s);
    return r;
}

double ak_median(const double *v, size_t n) { return ak_quantile(v, n, 0.5); }

/* The largest k for which [s[k], s[n-1-k]] still holds the true median with that confidence:
 * it misses it when at most k of n samples fall on one side, twice P(binomial(n, 1/2) <= k). */
static size_t trim(size_t n, double confidence) {
    double term = exp2(-(double)n), tail = term;
    size_t k = 0;
    while (k + 1 < (n + 1) / 2) {
        term *= (double)(n - k) / (double)(k + 1);
        if (2 * (tail + term) > 1 - confidence) break;
        tail += term;
        k++;
    }
    return k;
}

struct ak_interval ak_median_interval(const double *v, size_t n, double confidence) {
    double *s = sorted(v, n);
    size_t k = n <= 1000 ? trim(n, confidence) : 0;
    if (n > 1000) { /* 2^-n underflows: the normal limit of the binomial, to the safe side */
        double z = 0;
        while (erfc(z / sqrt(2)) > 1 - confidence)
            z += 1e-3;
        k = (size_t)floor((double)n / 2 - z * sqrt((double)n) / 2 - 1);
    }
    struct ak_interval r = {.median = at(s, n, 0.5), .low = s[k], .high = s[n - 1 - k], .n = n};
    free(s);
    return r;
}
