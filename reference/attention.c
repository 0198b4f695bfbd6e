/* scaled_dot_product_attention: each block of queries against all keys, scores and softmax in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "mem.h"

enum { QUERY, KEY, VALUE, MASK, DROPOUT, CAUSAL, SCALE, GQA, BLOCK = 64 };

/* Key and value heads each serve a run of query heads: dim -3 repeated by stride 0 would need one dim more, so heads are mapped here. */
struct shapes {
    int ndim;                    /* of the leading dims */
    int64_t lead[AK_MAX_DIMS], n; /* broadcast leading dims, their product */
    int64_t l, s, e, ev, group;
};

static int shapes_of(const struct ak_opcall *c, struct shapes *a, struct ak_err *err) {
    const struct ak_tensor *q = ak_arg(c, QUERY), *k = ak_arg(c, KEY), *v = ak_arg(c, VALUE);
    if (!q || !k || !v || q->ndim < 2 || k->ndim < 2 || v->ndim < 2) return ak_bad(err, "query, key and value need two dims or more");
    struct ak_tensor t[3] = {*q, *k, *v};
    *a = (struct shapes){.l = q->shape[q->ndim - 2], .s = k->shape[k->ndim - 2], .e = q->shape[q->ndim - 1], .ev = v->shape[v->ndim - 1], .group = 1};
    if (k->shape[k->ndim - 1] != a->e) return ak_bad(err, "query and key differ in their last dim");
    if (v->shape[v->ndim - 2] != a->s) return ak_bad(err, "key and value differ in length");
    if (ak_flag(c, GQA)) {
        if (q->ndim < 3 || k->ndim < 3 || v->ndim < 3) return ak_bad(err, "enable_gqa wants heads");
        int64_t hq = q->shape[q->ndim - 3], hk = k->shape[k->ndim - 3];
        if (hk == 0 || hq % hk || v->shape[v->ndim - 3] != hk) return ak_bad(err, "%lld query heads for %lld heads of keys", (long long)hq, (long long)hk);
        a->group = hq / hk;
        t[1].shape[k->ndim - 3] = t[2].shape[v->ndim - 3] = hq;
    }
    for (int i = 0; i < 3; i++) {
        t[i].ndim -= 2;
        if (ak_broadcast(&a->ndim, a->lead, &t[i], err)) return -1;
    }
    a->n = 1;
    for (int i = 0; i < a->ndim; i++)
        a->n *= a->lead[i];
    return 0;
}

static int check_mask(const struct ak_opcall *c, const struct shapes *a, struct ak_err *err) {
    const struct ak_tensor *m = ak_arg(c, MASK), *q = ak_arg(c, QUERY);
    if (!m) return 0;
    if (ak_flag(c, CAUSAL)) return ak_bad(err, "attn_mask and is_causal exclude each other");
    if (m->dtype != AK_BOOL && !ak_dtype_is_float(m->dtype)) return ak_bad(err, "the mask is neither boolean nor real");
    if (m->dtype != AK_BOOL && m->dtype != q->dtype && m->dtype != AK_F32) return ak_bad(err, "the mask has another dtype than the query");
    int ndim = a->ndim + 2;
    int64_t shape[AK_MAX_DIMS + 2];
    memcpy(shape, a->lead, sizeof a->lead);
    shape[ndim - 2] = a->l;
    shape[ndim - 1] = a->s;
    if (m->ndim > ndim || ak_broadcast(&ndim, shape, m, err)) return ak_bad(err, "the mask does not fit the scores");
    for (int i = 0; i < a->ndim; i++)
        if (shape[i] != a->lead[i]) return ak_bad(err, "the mask does not fit the scores");
    return shape[ndim - 2] == a->l && shape[ndim - 1] == a->s ? 0 : ak_bad(err, "the mask does not fit the scores");
}

/* Of rank 4 the result lies in memory as [B, S, H, E], as PyTorch's kernels leave it, so that
 * transpose(1, 2).reshape(B, S, H*E) after it is a view. */
static int infer(struct ak_opcall *c, struct ak_err *err) {
    struct shapes a;
    const struct ak_tensor *q = ak_arg(c, QUERY);
    if (shapes_of(c, &a, err) || check_mask(c, &a, err)) return -1;
    if (q->dtype != ak_arg(c, KEY)->dtype || q->dtype != ak_arg(c, VALUE)->dtype || !ak_dtype_is_float(q->dtype))
        return ak_bad(err, "query, key and value are of one real dtype");
    if (ak_num(c, DROPOUT) != 0) return ak_bad(err, "dropout is random; export the model in eval mode");
    int64_t shape[AK_MAX_DIMS + 2];
    memcpy(shape, a.lead, sizeof a.lead);
    shape[a.ndim] = a.l;
    shape[a.ndim + 1] = a.ev;
    ak_out(c, q->dtype, a.ndim + 2, shape);
    struct ak_tensor *o = &c->out[0];
    if (a.ndim == 2 && a.n > 0 && a.l > 0 && a.ev > 0) {
        o->stride[2] = o->shape[1] * a.ev;
        o->stride[1] = a.ev;
    }
    return 0;
}

/* Where the matrix of leading index i begins; heads are divided by `group`. */
static int64_t begin(const struct ak_tensor *t, const struct shapes *a, int64_t i, int64_t group) {
    int64_t at = t->offset;
    for (int d = a->ndim - 1, k = t->ndim - 3; d >= 0; d--, k--) {
        int64_t at_d = i % a->lead[d];
        i /= a->lead[d];
        if (k < 0) continue;
        if (d == a->ndim - 1) at_d /= group;
        if (t->shape[k] > 1) at += at_d * t->stride[k];
    }
    return at;
}

static struct ak_mat mat(const struct ak_tensor *t, int64_t at, bool transposed) {
    int64_t row = t->stride[t->ndim - 2], col = t->stride[t->ndim - 1];
    return (struct ak_mat){.dtype = t->dtype, .data = t->data, .at = at, .row = transposed ? col : row, .col = transposed ? row : col};
}

static void apply_mask(const struct ak_tensor *m, const struct shapes *a, int64_t i, int64_t row, double *s, double *mask) {
    int64_t at = begin(m, a, i, 1), col = m->ndim && m->shape[m->ndim - 1] > 1 ? m->stride[m->ndim - 1] : 0;
    if (m->ndim > 1 && m->shape[m->ndim - 2] > 1) at += row * m->stride[m->ndim - 2];
    ak_load_run(m->dtype, m->data, at, col, a->s, mask);
    for (int64_t j = 0; j < a->s; j++)
        s[j] = m->dtype != AK_BOOL ? s[j] + mask[j] : mask[j] != 0 ? s[j] : -INFINITY;
}

/* A row that is masked throughout gives zeros, as PyTorch's _safe_softmax does. */
static void softmax(double *s, int64_t n) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = s[j] > max || isnan(s[j]) ? s[j] : max;
    if (max == -INFINITY) {
        memset(s, 0, (size_t)n * sizeof *s);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        s[j] = exp(s[j] - max);
    sum = ak_sum(s, n);
    for (int64_t j = 0; j < n; j++)
        s[j] /= sum;
}

static void attend(struct ak_opcall *c, const struct shapes *a, int64_t i, int64_t row, double *scores, double *mask) {
    const struct ak_tensor *q = ak_arg(c, QUERY), *k = ak_arg(c, KEY), *v = ak_arg(c, VALUE), *m = ak_arg(c, MASK), *o = &c->out[0];
    int64_t rows = a->l - row < BLOCK ? a->l - row : BLOCK;
    bool causal = ak_flag(c, CAUSAL);
    double scale = ak_none(c, SCALE) ? 1 / sqrt((double)a->e) : ak_num(c, SCALE);
    struct ak_gemm g = {.m = rows, .n = a->s, .k = a->e, .alpha = scale};
    g.a = mat(q, begin(q, a, i, 1) + row * q->stride[q->ndim - 2], false);
    g.b = mat(k, begin(k, a, i, a->group), true);
    g.out = (struct ak_mat){.dtype = AK_F64, .data = scores, .row = a->s, .col = 1};
    ak_gemm(&g);
    for (int64_t r = 0; r < rows; r++) {
        double *s = scores + r * a->s;
        for (int64_t j = row + r + 1; causal && j < a->s; j++)
            s[j] = -INFINITY;
        if (m) apply_mask(m, a, i, row + r, s, mask);
        softmax(s, a->s);
    }
    struct ak_gemm h = {.m = rows, .n = a->ev, .k = a->s, .alpha = 1, .a = g.out};
    h.b = mat(v, begin(v, a, i, a->group), false);
    h.out = mat(o, begin(o, a, i, 1) + row * o->stride[o->ndim - 2], false);
    ak_gemm(&h);
}

static int run(struct ak_opcall *c, struct ak_err *err) {
    struct shapes a;
    if (shapes_of(c, &a, err)) return -1;
    int64_t blocks = (a.l + BLOCK - 1) / BLOCK;
#pragma omp parallel if (a.n * blocks > 1)
    {
        double *scores = ak_malloc((size_t)(BLOCK + 1) * (size_t)(a.s + 1) * sizeof *scores);
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < a.n * blocks; t++)
            attend(c, &a, t / blocks, t % blocks * BLOCK, scores, scores + BLOCK * a.s);
        free(scores);
    }
    return 0;
}

/* 2 l s (e + ev) a head: both products in full, causal or not, as PyTorch's flop counter has it. */
static double flops(const struct ak_opcall *c) {
    struct shapes a;
    struct ak_err err;
    if (shapes_of(c, &a, &err)) return 0;
    return 2.0 * (double)a.n * (double)a.l * (double)a.s * (double)(a.e + a.ev);
}

static const struct ak_op rows[] = {
    {.schema = "aten.scaled_dot_product_attention.default(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
               "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     .infer = infer,
     .run = run,
     .flops = flops},
};
AK_ROWS(ak_ops_attention, rows);
