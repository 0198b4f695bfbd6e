/* How the ops reach elements: runs of a dim converted to double or int64_t and back, walks over
 * several tensors at once, lanes of a tensor along some of its dims. Ops compute on plain arrays. */
#ifndef AK_WALK_H
#define AK_WALK_H

#include "ops.h"

/* ---- runs: n elements from number `at` on, `step` apart ---- */

void ak_load_run(enum ak_dtype d, const void *p, int64_t at, int64_t step, int64_t n, double *to);
void ak_store_run(enum ak_dtype d, void *p, int64_t at, int64_t step, int64_t n, const double *from);
void ak_load_run_i64(enum ak_dtype d, const void *p, int64_t at, int64_t step, int64_t n, int64_t *to);
void ak_store_run_i64(enum ak_dtype d, void *p, int64_t at, int64_t step, int64_t n, const int64_t *from); /* wraps */
/* Rounds, or wraps, values to what dtype d can hold. */
void ak_round_run(enum ak_dtype d, int64_t n, double *v);
void ak_wrap_run(enum ak_dtype d, int64_t n, int64_t *v);

/* ---- walks: several tensors broadcast to one shape ---- */

enum { AK_WALK_MAX = 4, AK_RUN = 512 };

struct ak_walk {
    int n, ndim;
    int64_t shape[AK_MAX_DIMS], stride[AK_WALK_MAX][AK_MAX_DIMS], at[AK_WALK_MAX];
};
void ak_walk_init(struct ak_walk *w, int ndim, const int64_t *shape);
void ak_walk_add(struct ak_walk *w, const struct ak_tensor *t); /* NULL: a number, which has no element to point at */
/* Merges the dims that can be walked as one. Returns the number of pieces of at most AK_RUN elements along the last dim. */
int64_t ak_walk_pieces(struct ak_walk *w);
/* Element numbers where piece p of each tensor begins. Returns its length; steps are w->stride[i][w->ndim - 1]. */
int64_t ak_walk_piece(const struct ak_walk *w, int64_t p, int64_t *at);
static inline int64_t ak_walk_step(const struct ak_walk *w, int i) { return w->stride[i][w->ndim - 1]; }

/* ---- pointwise ops ---- */

typedef void ak_real_fn(const double *const *x, double *y, int64_t n, const double *par);
typedef void ak_whole_fn(const int64_t *const *x, int64_t *y, int64_t n, const double *par);

struct ak_pointwise {
    int n, arg[AK_WALK_MAX]; /* which arguments are the operands */
    enum ak_dtype common;    /* what they are converted to; integers are computed by `whole`, floats by `real` */
    ak_real_fn *real;
    ak_whole_fn *whole;
    const double *par;
};
/* Fills out[0]. */
int ak_pointwise(struct ak_opcall *c, const struct ak_pointwise *p);

/* ---- copies ---- */

void ak_copy(const struct ak_tensor *to, const struct ak_tensor *from);            /* of one shape, converting */
void ak_copy_reshaped(const struct ak_tensor *to, const struct ak_tensor *from);   /* of one count; `to` row-major */
void ak_fill(const struct ak_tensor *to, double real, int64_t whole);              /* `whole` if to is of integers */
/* The elements in row-major order as doubles, or as int64_t; freed with free(). */
double *ak_reals(const struct ak_tensor *t);
int64_t *ak_wholes(const struct ak_tensor *t);

/* ---- lanes: a tensor cut along the set of dims ---- */

struct ak_lanes {
    struct ak_tensor outer, inner; /* dims outside and inside the set; inner.offset is 0 */
    int64_t n, length;
};
struct ak_lanes ak_lanes_of(const struct ak_tensor *t, unsigned set);
void ak_lane_load(const struct ak_lanes *l, int64_t i, double *to);
void ak_lane_store(const struct ak_lanes *l, int64_t i, const double *from);
void ak_lane_load_i64(const struct ak_lanes *l, int64_t i, int64_t *to);
void ak_lane_store_i64(const struct ak_lanes *l, int64_t i, const int64_t *from);

/* Each lane of `in` along the set computed to the matching lane of `out` (of the same shape). */
typedef void ak_lane_fn(const double *x, double *y, int64_t n, const double *par);
void ak_map_lanes(const struct ak_tensor *out, const struct ak_tensor *in, unsigned set, ak_lane_fn *fn, const double *par);

/* Sum with eight partial sums: the order does not depend on threads. */
double ak_sum(const double *v, int64_t n);

#endif
