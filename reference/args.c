/* A call's arguments and the rules that outputs follow: broadcasting, promotion, dims. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops.h"

int ak_bad(struct ak_err *err, const char *fmt, ...) {
    char msg[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return ak_fail(err, AK_EXIT_INPUT, "%s", msg);
}

int ak_ints(const struct ak_opcall *c, size_t i, int n, int64_t otherwise, int64_t *out, struct ak_err *err) {
    const struct ak_val *v = &c->in[i];
    const int64_t *list = v->kind == AK_VAL_INTS ? v->ints.v : &v->i;
    size_t have = v->kind == AK_VAL_INTS ? v->ints.n : v->kind == AK_VAL_INT;
    if (have > 1 && have != (size_t)n) return ak_bad(err, "'%s' has %zu entries, not %d", c->op->args[i].name, have, n);
    for (int k = 0; k < n; k++)
        out[k] = have == 0 ? otherwise : list[have == 1 ? 0 : k];
    return 0;
}

int ak_list(const struct ak_opcall *c, size_t i, int *n, int64_t *out, struct ak_err *err) {
    const struct ak_val *v = &c->in[i];
    const int64_t *list = v->kind == AK_VAL_INTS ? v->ints.v : &v->i;
    size_t have = v->kind == AK_VAL_INTS ? v->ints.n : v->kind == AK_VAL_INT;
    if (have > AK_MAX_DIMS) return ak_bad(err, "'%s' has %zu entries; at most %d are supported", c->op->args[i].name, have, AK_MAX_DIMS);
    *n = (int)have;
    if (have) memcpy(out, list, have * sizeof *out);
    return 0;
}

enum ak_dtype ak_dtype_or(const struct ak_opcall *c, size_t i, enum ak_dtype otherwise) {
    return c->in[i].kind == AK_VAL_INT ? (enum ak_dtype)c->in[i].i : otherwise;
}

/* ---- shapes ---- */

int ak_dim(int64_t dim, int ndim, int *out, struct ak_err *err) {
    int n = ndim ? ndim : 1;
    if (dim < -n || dim >= n) return ak_bad(err, "dim %lld is out of range for rank %d", (long long)dim, ndim);
    *out = (int)(dim < 0 ? dim + n : dim);
    return 0;
}

int ak_dim_set(const struct ak_opcall *c, size_t i, int ndim, unsigned *set, struct ak_err *err) {
    int64_t list[AK_MAX_DIMS];
    int n, d = 0;
    if (ak_list(c, i, &n, list, err)) return -1;
    *set = n ? 0 : (1u << ndim) - 1;
    for (int k = 0; k < n; k++) {
        if (ak_dim(list[k], ndim, &d, err)) return -1;
        if (*set >> d & 1) return ak_bad(err, "dim %d appears twice", d);
        *set |= 1u << d;
    }
    if (ndim == 0) *set = 0;
    return 0;
}

int ak_broadcast(int *ndim, int64_t *shape, const struct ak_tensor *t, struct ak_err *err) {
    if (t->ndim > *ndim) {
        int more = t->ndim - *ndim;
        memmove(shape + more, shape, (size_t)*ndim * sizeof *shape);
        for (int i = 0; i < more; i++)
            shape[i] = 1;
        *ndim = t->ndim;
    }
    for (int i = 0; i < t->ndim; i++) {
        int64_t *s = &shape[*ndim - t->ndim + i];
        if (*s == t->shape[i] || t->shape[i] == 1) continue;
        if (*s != 1) return ak_bad(err, "the shapes do not broadcast");
        *s = t->shape[i];
    }
    return 0;
}

struct ak_tensor ak_expanded(const struct ak_tensor *t, int ndim, const int64_t *shape) {
    struct ak_tensor v = {.dtype = t->dtype, .ndim = ndim, .offset = t->offset, .data = t->data};
    int lead = ndim - t->ndim;
    for (int i = 0; i < ndim; i++) {
        v.shape[i] = shape[i];
        v.stride[i] = i < lead || (t->shape[i - lead] == 1 && shape[i] != 1) ? 0 : t->stride[i - lead];
    }
    return v;
}

/* ---- dtypes ---- */

static int kind_of(enum ak_dtype d) { return d == AK_BOOL ? 0 : ak_dtype_is_float(d) ? 2 : 1; }

enum ak_dtype ak_promote(enum ak_dtype a, enum ak_dtype b) {
    if (a == b) return a;
    if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
    if (kind_of(a) == 2) return a <= AK_F32 || b <= AK_F32 ? (a < b ? a : b) : AK_F32; /* f16 with bf16 */
    if ((a == AK_U8 && b == AK_I8) || (a == AK_I8 && b == AK_U8)) return AK_I16;
    return a < b ? a : b;
}

static enum ak_dtype number_type(const struct ak_val *v) {
    return v->kind == AK_VAL_FLOAT ? AK_F32 : v->kind == AK_VAL_BOOL ? AK_BOOL : AK_I64;
}

enum ak_dtype ak_result_type(const struct ak_opcall *c, size_t a, size_t n) {
    int best[3] = {-1, -1, -1}; /* tensors with dims, rank 0, numbers */
    for (size_t i = a; i < a + n; i++) {
        const struct ak_val *v = &c->in[i];
        if (v->kind == AK_VAL_NONE) continue;
        int rank = v->kind != AK_VAL_TENSOR ? 2 : v->t->ndim == 0;
        enum ak_dtype d = v->kind == AK_VAL_TENSOR ? v->t->dtype : number_type(v);
        best[rank] = best[rank] < 0 ? (int)d : (int)ak_promote((enum ak_dtype)best[rank], d);
    }
    int result = best[0];
    for (int r = 1; r < 3; r++) {
        if (best[r] < 0) continue;
        if (result < 0 || kind_of((enum ak_dtype)best[r]) > kind_of((enum ak_dtype)result)) result = best[r];
    }
    return result < 0 ? AK_F32 : (enum ak_dtype)result;
}

/* ---- outputs ---- */

int ak_out(struct ak_opcall *c, enum ak_dtype dtype, int ndim, const int64_t *shape) {
    c->out[c->nout++] = ak_tensor_new(dtype, ndim, shape);
    return 0;
}

int ak_out_view(struct ak_opcall *c, size_t arg, const struct ak_tensor *view) {
    c->alias[c->nout] = (int)arg + 1;
    c->out[c->nout++] = *view;
    return 0;
}

int ak_out_broadcast(struct ak_opcall *c, size_t a, size_t n, int dtype, struct ak_err *err) {
    int ndim = 0;
    int64_t shape[AK_MAX_DIMS];
    for (size_t i = a; i < a + n; i++) {
        const struct ak_tensor *t = ak_arg(c, i);
        if (!t) continue;
        if (ak_broadcast(&ndim, shape, t, err)) return -1;
        if (dtype < 0) dtype = t->dtype;
    }
    return ak_out(c, dtype < 0 ? ak_result_type(c, a, n) : (enum ak_dtype)dtype, ndim, shape);
}

int ak_out_reduced(struct ak_opcall *c, const struct ak_tensor *t, unsigned set, bool keepdim, enum ak_dtype dtype) {
    int64_t shape[AK_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < t->ndim; i++) {
        bool gone = set >> i & 1;
        if (!gone || keepdim) shape[n++] = gone ? 1 : t->shape[i];
    }
    return ak_out(c, dtype, n, shape);
}

int ak_infer_same(struct ak_opcall *c, struct ak_err *err) { return ak_out_broadcast(c, 0, 1, -1, err); }

int ak_infer_float(struct ak_opcall *c, struct ak_err *err) {
    return ak_out_broadcast(c, 0, 1, (int)ak_floating(ak_result_type(c, 0, 1)), err);
}

int ak_infer_nothing(struct ak_opcall *c, struct ak_err *err) {
    (void)c;
    (void)err;
    return 0;
}
