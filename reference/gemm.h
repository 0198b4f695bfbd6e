/* Matrix products in double: the one loop that whole models spend their truth in. */
#ifndef AK_GEMM_H
#define AK_GEMM_H

#include "walk.h"

/* Element [i, j] is number at + i*row + j*col. */
struct ak_mat {
    enum ak_dtype dtype;
    void *data;
    int64_t at, row, col;
};

/* out[m,n] = alpha * a[m,k] b[k,n] + beta * add[m,n], rounded once, for each of `batch` products whose
 * matrices begin at xxx_at[i] further on (NULL: not at all). add.data NULL: nothing is added.
 * Integer matrices are computed exactly; alpha and beta then count as integers. */
struct ak_gemm {
    int64_t m, n, k;
    struct ak_mat a, b, out, add;
    double alpha, beta;
    int64_t batch;
    const int64_t *a_at, *b_at, *out_at, *add_at;
};
void ak_gemm(const struct ak_gemm *g);

#endif
