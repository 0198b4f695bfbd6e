/* Products of matrices and vectors. flops: 2 m n k for each, as everybody counts them. */
#include <stdlib.h>

#include "gemm.h"
#include "mem.h"

/* ---- matrices seen in tensors ---- */

static struct ak_mat mat(const struct ak_tensor *t, int64_t row, int64_t col) {
    return (struct ak_mat){.dtype = t->dtype, .data = t->data, .at = t->offset, .row = row, .col = col};
}
static struct ak_mat last_two(const struct ak_tensor *t) { return mat(t, t->stride[t->ndim - 2], t->stride[t->ndim - 1]); }

static int mixed(struct ak_err *err) { return ak_bad(err, "the dtypes differ"); }

/* Where each of the batch of matrices begins in t, whose leading dims broadcast to `shape`. */
static int64_t *begins(const struct ak_tensor *t, int tail, int ndim, const int64_t *shape, int64_t n) {
    struct ak_tensor lead = *t;
    lead.ndim = t->ndim > tail ? t->ndim - tail : 0;
    lead.offset = 0;
    struct ak_tensor wide = ak_expanded(&lead, ndim, shape);
    int64_t *at = ak_calloc((size_t)n + 1, sizeof *at);
    for (int64_t i = 0; i < n; i++)
        at[i] = ak_index(&wide, i);
    return at;
}

/* ---- linear: input [*, k], weight [n, k] ---- */

static int infer_linear(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0), *w = ak_arg(c, 1), *b = ak_arg(c, 2);
    if (!x || !w || x->ndim < 1 || w->ndim < 1 || w->ndim > 2) return ak_bad(err, "a weight [n, k] and an input [*, k] are wanted");
    if (x->dtype != w->dtype || (b && b->dtype != x->dtype)) return mixed(err);
    if (x->shape[x->ndim - 1] != w->shape[w->ndim - 1]) return ak_bad(err, "the inner dims differ");
    if (b && !((b->ndim == 1 && w->ndim == 2 && (b->shape[0] == w->shape[0] || b->shape[0] == 1)) || b->ndim == 0))
        return ak_bad(err, "the bias does not fit");
    struct ak_tensor o = *x;
    o.shape[o.ndim - 1] = w->shape[0];
    return ak_out(c, x->dtype, w->ndim == 2 ? x->ndim : x->ndim - 1, o.shape);
}

static int run_linear(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *w = ak_arg(c, 1), *b = ak_arg(c, 2), *o = &c->out[0];
    struct ak_tensor x = *ak_arg(c, 0), flat;
    int64_t k = x.shape[x.ndim - 1], n = w->ndim == 2 ? w->shape[0] : 1, m = n ? ak_numel(o) / n : 0;
    void *copy = NULL;
    if (!m) return 0;
    if (!ak_tensor_view(&x, 2, (int64_t[]){m, k}, &flat)) {
        flat = ak_tensor_new(x.dtype, 2, (int64_t[]){m, k});
        copy = flat.data = ak_malloc((size_t)(m * k + 1) * ak_dtype_size(x.dtype));
        ak_copy_reshaped(&flat, &x);
    }
    struct ak_gemm g = {.m = m, .n = n, .k = k, .a = last_two(&flat), .alpha = 1, .beta = 1};
    g.b = mat(w, w->stride[w->ndim - 1], w->ndim == 2 ? w->stride[0] : 0);
    g.out = mat(o, n, 1);
    if (b) g.add = mat(b, 0, b->ndim && b->shape[0] > 1 ? b->stride[0] : 0);
    ak_gemm(&g);
    free(copy);
    return 0;
}

static double flops_linear(const struct ak_opcall *c) {
    const struct ak_tensor *x = ak_arg(c, 0);
    return 2.0 * (double)ak_numel(&c->out[0]) * (double)x->shape[x->ndim - 1];
}

/* ---- matmul: vectors are a row before, a column behind; leading dims broadcast ---- */

static struct ak_tensor as_matrix(const struct ak_tensor *t, bool left) {
    struct ak_tensor v = *t;
    if (t->ndim > 1) return v;
    v.ndim = 2;
    v.shape[left ? 1 : 0] = t->shape[0];
    v.stride[left ? 1 : 0] = t->stride[0];
    v.shape[left ? 0 : 1] = 1;
    v.stride[left ? 0 : 1] = 0;
    return v;
}

/* The leading dims of the two broadcast. */
static int lead_dims(const struct ak_tensor *a, const struct ak_tensor *b, int *ndim, int64_t *shape, struct ak_err *err) {
    struct ak_tensor x = *a, y = *b;
    x.ndim -= 2;
    y.ndim -= 2;
    *ndim = 0;
    return ak_broadcast(ndim, shape, &x, err) || ak_broadcast(ndim, shape, &y, err) ? -1 : 0;
}

static int infer_matmul(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0), *y = ak_arg(c, 1);
    if (!x || !y || x->ndim < 1 || y->ndim < 1) return ak_bad(err, "both need at least one dim");
    if (x->dtype != y->dtype) return mixed(err);
    struct ak_tensor a = as_matrix(x, true), b = as_matrix(y, false);
    int n;
    int64_t shape[AK_MAX_DIMS + 2];
    if (a.shape[a.ndim - 1] != b.shape[b.ndim - 2]) return ak_bad(err, "the inner dims differ");
    if (lead_dims(&a, &b, &n, shape, err)) return -1;
    if (x->ndim > 1) shape[n++] = a.shape[a.ndim - 2];
    if (y->ndim > 1) shape[n++] = b.shape[b.ndim - 1];
    return ak_out(c, x->dtype, n, shape);
}

static int product(const struct ak_tensor *x, const struct ak_tensor *y, const struct ak_tensor *o, struct ak_err *err) {
    struct ak_tensor a = as_matrix(x, true), b = as_matrix(y, false);
    int n;
    int64_t shape[AK_MAX_DIMS], batch = 1;
    if (lead_dims(&a, &b, &n, shape, err)) return -1;
    for (int i = 0; i < n; i++)
        batch *= shape[i];
    struct ak_gemm g = {.m = a.shape[a.ndim - 2], .n = b.shape[b.ndim - 1], .k = a.shape[a.ndim - 1], .alpha = 1, .batch = batch};
    if (batch == 0) return 0;
    g.a = last_two(&a);
    g.b = last_two(&b);
    g.out = mat(o, g.n, 1);
    int64_t *a_at = begins(&a, 2, n, shape, batch), *b_at = begins(&b, 2, n, shape, batch), *o_at = ak_calloc((size_t)batch, sizeof *o_at);
    for (int64_t i = 0; i < batch; i++)
        o_at[i] = i * g.m * g.n;
    bool shared = b.ndim == 2 && a.ndim > 2 && ak_tensor_view(&a, 2, (int64_t[]){batch * g.m, g.k}, &a); /* one tall product */
    if (shared) {
        g.a = last_two(&a);
        g.m *= batch;
        g.batch = 1;
    }
    g.a_at = a_at;
    g.b_at = b_at;
    g.out_at = o_at;
    ak_gemm(&g);
    free(a_at);
    free(b_at);
    free(o_at);
    return 0;
}
static int run_matmul(struct ak_opcall *c, struct ak_err *err) { return product(ak_arg(c, 0), ak_arg(c, 1), &c->out[0], err); }

static double flops_matmul(const struct ak_opcall *c) {
    const struct ak_tensor *x = ak_arg(c, 0);
    return 2.0 * (double)ak_numel(&c->out[0]) * (double)x->shape[x->ndim - 1];
}

/* mm, bmm, mv, dot: matmul of fixed ranks */
static int ranked(struct ak_opcall *c, int a, int b, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0), *y = ak_arg(c, 1);
    if (!x || !y || x->ndim != a || y->ndim != b) return ak_bad(err, "ranks %d and %d are wanted", a, b);
    if (a == 3 && x->shape[0] != y->shape[0]) return ak_bad(err, "the batches differ");
    return infer_matmul(c, err);
}
static int infer_mm(struct ak_opcall *c, struct ak_err *err) { return ranked(c, 2, 2, err); }
static int infer_bmm(struct ak_opcall *c, struct ak_err *err) { return ranked(c, 3, 3, err); }
static int infer_mv(struct ak_opcall *c, struct ak_err *err) { return ranked(c, 2, 1, err); }
static int infer_dot(struct ak_opcall *c, struct ak_err *err) { return ranked(c, 1, 1, err); }

static int infer_outer(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *x = ak_arg(c, 0), *y = ak_arg(c, 1);
    if (!x || !y || x->ndim != 1 || y->ndim != 1) return ak_bad(err, "two vectors are wanted");
    return ak_out(c, ak_promote(x->dtype, y->dtype), 2, (int64_t[]){x->shape[0], y->shape[0]});
}
static int run_outer(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    const struct ak_tensor *x = ak_arg(c, 0), *y = ak_arg(c, 1);
    struct ak_gemm g = {.m = x->shape[0], .n = y->shape[0], .k = 1, .alpha = 1};
    g.a = mat(x, x->stride[0], 0);
    g.b = mat(y, 0, y->stride[0]);
    g.out = mat(&c->out[0], g.n, 1);
    ak_gemm(&g);
    return 0;
}

/* ---- beta * self + alpha * (a @ b) ---- */

static int infer_add_product(struct ak_opcall *c, int rank, int b_rank, struct ak_err *err) {
    const struct ak_tensor *s = ak_arg(c, 0), *a = ak_arg(c, 1), *b = ak_arg(c, 2);
    if (!s || !a || !b || a->ndim != rank || b->ndim != b_rank) return ak_bad(err, "ranks %d and %d are wanted", rank, b_rank);
    if (a->dtype != b->dtype || a->dtype != s->dtype) return mixed(err);
    bool same_batch = rank < 3 || a->shape[0] == b->shape[0];
    if (!same_batch || a->shape[rank - 1] != b->shape[b_rank == 1 ? 0 : b_rank - 2]) return ak_bad(err, "the inner dims differ");
    int64_t shape[3], want[AK_MAX_DIMS];
    int n = 0, ndim;
    for (int i = 0; i < rank - 1; i++)
        shape[n++] = a->shape[i];
    if (b_rank > 1) shape[n++] = b->shape[b_rank - 1];
    ndim = n;
    for (int i = 0; i < n; i++)
        want[i] = shape[i];
    if (ak_broadcast(&ndim, want, s, err)) return -1;
    bool fits = ndim == n;
    for (int i = 0; fits && i < n; i++)
        fits = want[i] == shape[i];
    return fits ? ak_out(c, a->dtype, n, shape) : ak_bad(err, "the tensor to be added does not broadcast to the product");
}
static int infer_addmm(struct ak_opcall *c, struct ak_err *err) { return infer_add_product(c, 2, 2, err); }
static int infer_baddbmm(struct ak_opcall *c, struct ak_err *err) { return infer_add_product(c, 3, 3, err); }
static int infer_addmv(struct ak_opcall *c, struct ak_err *err) { return infer_add_product(c, 2, 1, err); }

static int run_add_product(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    struct ak_tensor a = *ak_arg(c, 1), b = as_matrix(ak_arg(c, 2), false), o = c->out[0];
    struct ak_tensor s = ak_expanded(ak_arg(c, 0), o.ndim, o.shape);
    int64_t batch = a.ndim == 3 ? a.shape[0] : 1;
    struct ak_gemm g = {.m = a.shape[a.ndim - 2], .n = b.shape[b.ndim - 1], .k = a.shape[a.ndim - 1], .beta = ak_num(c, 3), .alpha = ak_num(c, 4)};
    bool column = ak_arg(c, 2)->ndim == 1;
    g.a = last_two(&a);
    g.b = last_two(&b);
    g.out = mat(&o, g.n, 1);
    if (g.beta != 0) g.add = column ? mat(&s, s.stride[0], 0) : last_two(&s); /* beta 0 ignores even NaN */
    for (int64_t i = 0; i < batch; i++) {
        ak_gemm(&g);
        if (a.ndim < 3) break;
        g.a.at += a.stride[0];
        g.b.at += b.stride[0];
        g.out.at += g.m * g.n;
        g.add.at += s.stride[0];
    }
    return 0;
}

static double flops_add_product(const struct ak_opcall *c) {
    const struct ak_tensor *a = ak_arg(c, 1);
    return 2.0 * (double)ak_numel(&c->out[0]) * (double)a->shape[a->ndim - 1];
}

#define PRODUCT(s, name) {.schema = s, .infer = infer_##name, .run = run_matmul, .flops = flops_matmul}
#define ADDED(s, name) {.schema = s, .infer = infer_##name, .run = run_add_product, .flops = flops_add_product}

static const struct ak_op rows[] = {
    {.schema = "aten.linear.default(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
     .infer = infer_linear,
     .run = run_linear,
     .flops = flops_linear},
    PRODUCT("aten.matmul.default(Tensor self, Tensor other) -> Tensor", matmul),
    PRODUCT("aten.mm.default(Tensor self, Tensor mat2) -> Tensor", mm),
    PRODUCT("aten.bmm.default(Tensor self, Tensor mat2) -> Tensor", bmm),
    PRODUCT("aten.mv.default(Tensor self, Tensor vec) -> Tensor", mv),
    PRODUCT("aten.dot.default(Tensor self, Tensor tensor) -> Tensor", dot),
    {.schema = "aten.outer.default(Tensor self, Tensor vec2) -> Tensor", .infer = infer_outer, .run = run_outer},
    ADDED("aten.addmm.default(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm),
    ADDED("aten.baddbmm.default(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", baddbmm),
    ADDED("aten.addmv.default(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmv),
};
AK_ROWS(ak_ops_matmul, rows);
