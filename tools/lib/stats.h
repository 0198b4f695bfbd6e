/* Order statistics of small samples. */
#ifndef AK_STATS_H
#define AK_STATS_H

#include <stddef.h>

double ak_median(const double *v, size_t n); /* n >= 1; v is not changed */
double ak_quantile(const double *v, size_t n, double q); /* linear between order statistics */

struct ak_interval {
    double median, low, high;
    size_t n;
};
/* The median of v with a distribution-free confidence interval from order statistics: at least
 * the given confidence by the binomial(n, 1/2) tail (e.g. 0.99). n too small for it: the range. */
struct ak_interval ak_median_interval(const double *v, size_t n, double confidence);

#endif
