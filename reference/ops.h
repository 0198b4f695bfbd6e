/* What the files of the op set share: tables of rows, access to a call's arguments, rules of
 * shapes and dtypes. The elements are reached through walk.h. */
#ifndef AK_OPS_H
#define AK_OPS_H

#include "op.h"

/* ---- tables ---- */

struct ak_op_rows {
    const struct ak_op *v;
    size_t n;
};
#define AK_ROWS(name, rows) const struct ak_op_rows name = {rows, sizeof(rows) / sizeof *(rows)}

#define AK_OP_FILES(X)                                                                                                 \
    X(unary) X(binary) X(compare) X(select) X(reduce) X(extreme) X(softmax) X(scan) X(norm) X(batchnorm) X(matmul)     \
    X(einsum) X(attention) X(conv) X(pool) X(adaptive) X(view) X(slice) X(join) X(create) X(cast) X(index)             \
    X(scatter) X(pad) X(resize) X(sort) X(loss) X(sym) X(inplace)
#define X(name) extern const struct ak_op_rows ak_ops_##name;
AK_OP_FILES(X)
#undef X

/* ---- arguments of a call (their kinds were checked against the schema) ---- */

/* The tensor, or NULL if the argument is absent or a number. */
static inline const struct ak_tensor *ak_arg(const struct ak_opcall *c, size_t i) {
    return c->in[i].kind == AK_VAL_TENSOR ? c->in[i].t : NULL;
}
static inline bool ak_none(const struct ak_opcall *c, size_t i) { return c->in[i].kind == AK_VAL_NONE; }
static inline double ak_num(const struct ak_opcall *c, size_t i) {
    return c->in[i].kind == AK_VAL_FLOAT ? c->in[i].f : (double)c->in[i].i;
}
/* Towards zero, saturating; NaN gives 0. */
static inline int64_t ak_whole(double v) { return v >= 0x1p63 ? INT64_MAX : v > -0x1p63 ? (int64_t)v : v < 0 ? INT64_MIN : 0; }
static inline int64_t ak_int(const struct ak_opcall *c, size_t i) {
    return c->in[i].kind == AK_VAL_FLOAT ? ak_whole(c->in[i].f) : c->in[i].i;
}
static inline bool ak_flag(const struct ak_opcall *c, size_t i) { return ak_num(c, i) != 0; }
/* The n integers of a list; a number alone or a list of one counts for all n. An absent or empty list gives `otherwise`. */
int ak_ints(const struct ak_opcall *c, size_t i, int n, int64_t otherwise, int64_t *out, struct ak_err *err);
/* A list of at most AK_MAX_DIMS integers as it stands. */
int ak_list(const struct ak_opcall *c, size_t i, int *n, int64_t *out, struct ak_err *err);
/* A ScalarType argument, or `otherwise` where it is absent. */
enum ak_dtype ak_dtype_or(const struct ak_opcall *c, size_t i, enum ak_dtype otherwise);

/* ---- shapes and dtypes ---- */

int ak_bad(struct ak_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A dim in [-ndim, ndim) made positive; rank 0 counts as rank 1. */
int ak_dim(int64_t dim, int ndim, int *out, struct ak_err *err);
/* The set of dims of a list argument (or one dim) as bits; absent or empty means all. */
int ak_dim_set(const struct ak_opcall *c, size_t i, int ndim, unsigned *set, struct ak_err *err);
/* Widens shape/ndim so that t fits by broadcasting. */
int ak_broadcast(int *ndim, int64_t *shape, const struct ak_tensor *t, struct ak_err *err);
/* t seen with a shape it broadcasts to: stride 0 along the dims that repeat. */
struct ak_tensor ak_expanded(const struct ak_tensor *t, int ndim, const int64_t *shape);

enum ak_dtype ak_promote(enum ak_dtype a, enum ak_dtype b);
/* PyTorch's result type of the arguments a..a+n-1, tensors or numbers: a rank below decides only by a higher kind. */
enum ak_dtype ak_result_type(const struct ak_opcall *c, size_t a, size_t n);
static inline enum ak_dtype ak_floating(enum ak_dtype d) { return ak_dtype_is_float(d) ? d : AK_F32; }

/* ---- outputs ---- */

/* Adds a fresh row-major output. Returns 0. */
int ak_out(struct ak_opcall *c, enum ak_dtype dtype, int ndim, const int64_t *shape);
/* Adds an output that views argument `arg`. Returns 0. */
int ak_out_view(struct ak_opcall *c, size_t arg, const struct ak_tensor *view);
/* An output of the dtype given (or of argument a's if < 0) with the broadcast shape of the n tensors from argument a on. */
int ak_out_broadcast(struct ak_opcall *c, size_t a, size_t n, int dtype, struct ak_err *err);
/* The shape of t without the dims of the set (kept as 1 with keepdim). */
int ak_out_reduced(struct ak_opcall *c, const struct ak_tensor *t, unsigned set, bool keepdim, enum ak_dtype dtype);
int ak_infer_same(struct ak_opcall *c, struct ak_err *err);   /* shape and dtype of argument 0 */
int ak_infer_float(struct ak_opcall *c, struct ak_err *err);  /* shape of argument 0; integers become f32 */
int ak_infer_nothing(struct ak_opcall *c, struct ak_err *err); /* no output */

/* The row's functional op if it is an in-place one, else itself. */
const struct ak_op *ak_op_meaning(const struct ak_op *op);

#endif
