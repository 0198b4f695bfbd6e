/* What the op set's functions share: arguments, dims, promotion, and rows of doubles. */
#ifndef AK_ARGS_H
#define AK_ARGS_H

#include "op.h"

static inline const struct ak_tensor *ak_t(const struct ak_opcall *c, size_t i) {
    return i < c->nin && c->in[i].kind == AK_VAL_TENSOR ? c->in[i].t : NULL;
}
static inline bool ak_given(const struct ak_opcall *c, size_t i) { return i < c->nin && c->in[i].kind != AK_VAL_NONE; }
static inline int64_t ak_int(const struct ak_opcall *c, size_t i, int64_t otherwise) {
    if (!ak_given(c, i)) return otherwise;
    return c->in[i].kind == AK_VAL_FLOAT ? (int64_t)c->in[i].f : c->in[i].i;
}
static inline double ak_num(const struct ak_opcall *c, size_t i, double otherwise) {
    if (!ak_given(c, i)) return otherwise;
    return c->in[i].kind == AK_VAL_FLOAT ? c->in[i].f : (double)c->in[i].i;
}
/* The k-th of an int[] argument; one integer stands for all. */
int64_t ak_int_at(const struct ak_opcall *c, size_t i, size_t k, int64_t otherwise);

/* A dim from -ndim to ndim - 1 as 0 to ndim - 1; -1 with an error. A scalar has one dim here. */
int ak_dim(const struct ak_tensor *t, int64_t dim, struct ak_err *err);

/* The one output: a fresh row-major tensor. */
int ak_out(struct ak_opcall *c, enum ak_dtype dtype, int ndim, const int64_t *shape);
int ak_out_like(struct ak_opcall *c, enum ak_dtype dtype, const struct ak_tensor *like);
/* The one output: a view of argument i. */
int ak_out_view(struct ak_opcall *c, size_t i, struct ak_tensor view);

enum ak_dtype ak_promote(enum ak_dtype a, enum ak_dtype b);
/* torch's result type of the first n arguments: tensors with dims, then tensors without, then
 * numbers, each rank only raising the category (bool, integer, float) of those before it. */
enum ak_dtype ak_result_type(const struct ak_opcall *c, size_t n);
int ak_broadcast(const struct ak_tensor *const *t, size_t n, int64_t *shape, struct ak_err *err); /* ndim, or -1 */
/* t seen with a broadcast shape: stride 0 where it is stretched. */
struct ak_tensor ak_expand(const struct ak_tensor *t, int ndim, const int64_t *shape);

/* n elements from element number `at`, `stride` apart, as doubles or integers; and back. */
void ak_read_row(const struct ak_tensor *t, int64_t at, int64_t stride, int64_t n, double *to);
void ak_write_row(const struct ak_tensor *t, int64_t at, int64_t stride, int64_t n, const double *from);
void ak_read_row_i64(const struct ak_tensor *t, int64_t at, int64_t stride, int64_t n, int64_t *to);
void ak_write_row_i64(const struct ak_tensor *t, int64_t at, int64_t stride, int64_t n, const int64_t *from);

/* out[i] = fn(in[0][i], in[1][i], ...) over tensors of one shape (inputs broadcast by ak_expand),
 * in rows; fn_i64, where given, serves when every tensor is an integer or boolean one. */
enum { AK_ROW = 512, AK_MAX_MAP = 4 };
typedef void ak_row_fn(const double *const *in, double *out, int64_t n, const double *param);
typedef void ak_row_fn_i64(const int64_t *const *in, int64_t *out, int64_t n, const double *param);
void ak_map(const struct ak_tensor *out, const struct ak_tensor *const *in, size_t nin, ak_row_fn *fn, ak_row_fn_i64 *fn_i64,
            const double *param);
/* Copies with conversion. */
void ak_copy(const struct ak_tensor *out, const struct ak_tensor *in);

/* A matrix of m rows by n columns in any tensor's storage. */
struct ak_mat {
    enum ak_dtype dtype;
    void *data;
    int64_t at, row, col; /* first element, strides */
};
/* c = a b, accumulated in double in the order of k. */
void ak_gemm(int64_t m, int64_t n, int64_t k, struct ak_mat a, struct ak_mat b, struct ak_mat c);

#endif
