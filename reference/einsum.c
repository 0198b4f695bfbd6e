/* einsum of one or two operands without ellipsis: letters in both operands and the result are batches, letters that the
 * result lacks are summed. Brought to one batched matrix product [batch, m, k] x [batch, k, n]. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "mem.h"

enum { LETTERS = 52 };

struct plan {
    int operands, nout;
    int64_t size[LETTERS];              /* of each letter; -1: not used */
    int term[2][AK_MAX_DIMS], out[AK_MAX_DIMS]; /* letters of each operand's dims, of the result's */
};

static int letter(char ch) { return islower((unsigned char)ch) ? ch - 'a' : 26 + ch - 'A'; }

static int bind(struct plan *p, const struct ak_opcall *c, int k, const char *text, size_t n, struct ak_err *err) {
    const struct ak_tensor *t = c->in[1].ts.v[k];
    if (!t || (int)n != t->ndim) return ak_bad(err, "term %d has %zu letters for another rank", k, n);
    for (size_t i = 0; i < n; i++) {
        int l = p->term[k][i] = letter(text[i]);
        int64_t have = p->size[l], d = t->shape[i];
        if (have > 1 && d != 1 && d != have) return ak_bad(err, "letter '%c' is %lld here and %lld there", text[i], (long long)have, (long long)d);
        if (have < 0 || have == 1) p->size[l] = d;
    }
    return 0;
}

static int parse(struct plan *p, const struct ak_opcall *c, struct ak_err *err) {
    char s[128] = "";
    size_t n = 0, count[LETTERS] = {0};
    for (const char *r = c->in[0].s; *r; r++) {
        if (*r == '.') return ak_bad(err, "an ellipsis is not supported");
        if (*r == ' ') continue;
        if (!(isalpha((unsigned char)*r) || strchr(",->", *r)) || n + 1 >= sizeof s) return ak_bad(err, "'%s' is no equation", c->in[0].s);
        s[n++] = *r;
        s[n] = 0;
    }
    *p = (struct plan){.operands = (int)c->in[1].ts.n};
    for (int l = 0; l < LETTERS; l++)
        p->size[l] = -1;
    if (p->operands < 1 || p->operands > 2) return ak_bad(err, "%d operands; one or two are supported", p->operands);
    char *arrow = strstr(s, "->"), *term = s;
    const char *result = arrow ? arrow + 2 : NULL;
    if (arrow) *arrow = 0;
    for (int k = 0; k < p->operands; k++) {
        size_t len = strcspn(term, ",-");
        if (len > AK_MAX_DIMS || (k + 1 < p->operands) != (term[len] == ',')) return ak_bad(err, "'%s' has another number of terms", c->in[0].s);
        if (bind(p, c, k, term, len, err)) return -1;
        for (size_t i = 0; i < len; i++)
            count[letter(term[i])]++;
        term += len + 1;
    }
    for (int l = 0; !result && l < LETTERS; l++) { /* implicit result: letters met once, upper case first */
        int by = (l + 26) % LETTERS;
        if (count[by] == 1 && p->nout < AK_MAX_DIMS) p->out[p->nout++] = by;
    }
    for (; result && *result; result++) {
        if (!isalpha((unsigned char)*result) || p->nout == AK_MAX_DIMS || p->size[letter(*result)] < 0) return ak_bad(err, "the result of '%s' is no term", c->in[0].s);
        for (int i = 0; i < p->nout; i++)
            if (p->out[i] == letter(*result)) return ak_bad(err, "the result names '%c' twice", *result);
        p->out[p->nout++] = letter(*result);
    }
    return 0;
}

static int infer(struct ak_opcall *c, struct ak_err *err) {
    struct plan p;
    int64_t shape[AK_MAX_DIMS];
    if (parse(&p, c, err)) return -1;
    enum ak_dtype d = c->in[1].ts.v[0]->dtype;
    if (p.operands == 2 && c->in[1].ts.v[1]->dtype != d) return ak_bad(err, "the dtypes differ");
    for (int i = 0; i < p.nout; i++)
        shape[i] = p.size[p.out[i]];
    return ak_out(c, d, p.nout, shape);
}

/* Letters of one role: their number, and strides of operand k along them (the sum, where a letter repeats: a diagonal). */
struct role {
    int n, letter[LETTERS];
    int64_t count;
};

static int64_t stride_of(const struct plan *p, const struct ak_tensor *t, int k, int l) {
    int64_t s = 0;
    for (int i = 0; i < t->ndim; i++)
        if (p->term[k][i] == l && (t->shape[i] != 1 || p->size[l] == 1)) s += t->stride[i];
    return s;
}

/* Element numbers of operand t for all index tuples of a role, less its offset. */
static int64_t *places(const struct plan *p, const struct ak_tensor *t, int k, const struct role *r) {
    int64_t *at = ak_calloc((size_t)r->count + 1, sizeof *at);
    for (int64_t i = 0; i < r->count; i++) {
        int64_t rest = i;
        for (int j = r->n - 1; j >= 0; j--) {
            int64_t size = p->size[r->letter[j]];
            at[i] += rest % size * (t ? stride_of(p, t, k, r->letter[j]) : 0);
            rest /= size;
        }
    }
    return at;
}

static void push(const struct plan *p, struct role *r, int l) {
    r->letter[r->n++] = l;
    r->count *= p->size[l];
}

/* [rows, cols] of operand k as doubles (or int64_t), for one place of the batch */
static void gather(const struct ak_tensor *t, int64_t base, const int64_t *rows, int64_t nrows, const int64_t *cols, int64_t ncols, void *to, bool real) {
    for (int64_t i = 0; i < nrows; i++)
        for (int64_t j = 0; j < ncols; j++) {
            int64_t at = t->offset + base + rows[i] + cols[j];
            if (real)
                ((double *)to)[i * ncols + j] = ak_load(t->dtype, t->data, at);
            else
                ((int64_t *)to)[i * ncols + j] = ak_load_i64(t->dtype, t->data, at);
        }
}

/* Each letter's role: in both and the result, of the first only, of the second only, summed. */
struct roles {
    struct role batch, m, n, k;
};

static bool among(const int *letters, int n, int l) {
    for (int i = 0; i < n; i++)
        if (letters[i] == l) return true;
    return false;
}

static struct roles roles_of(const struct plan *p, const struct ak_tensor *a, const struct ak_tensor *b) {
    struct roles r = {{.count = 1}, {.count = 1}, {.count = 1}, {.count = 1}};
    for (int l = 0; l < LETTERS; l++) {
        bool in_a = among(p->term[0], a->ndim, l), in_b = b && among(p->term[1], b->ndim, l), in_o = among(p->out, p->nout, l);
        if (in_a || in_b) push(p, !in_o ? &r.k : in_a && in_b ? &r.batch : in_a ? &r.m : &r.n, l);
    }
    return r;
}

static void scatter(const struct ak_tensor *o, int64_t base, const int64_t *rows, int64_t nrows, const int64_t *cols, int64_t ncols, const void *from, bool real) {
    for (int64_t i = 0; i < nrows * ncols; i++) {
        int64_t at = o->offset + base + rows[i / ncols] + cols[i % ncols];
        if (real)
            ak_store(o->dtype, o->data, at, ((const double *)from)[i]);
        else
            ak_store_run_i64(o->dtype, o->data, at, 1, 1, (const int64_t *)from + i);
    }
}

static int run(struct ak_opcall *c, struct ak_err *err) {
    struct plan p;
    if (parse(&p, c, err)) return -1;
    const struct ak_tensor *a = c->in[1].ts.v[0], *b = p.operands > 1 ? c->in[1].ts.v[1] : NULL, *o = &c->out[0];
    struct roles r = roles_of(&p, a, b);
    struct plan q = p; /* the result's dims as a term */
    memcpy(q.term[0], p.out, sizeof p.out);
    bool real = ak_dtype_is_float(o->dtype);
    enum ak_dtype wide = real ? AK_F64 : AK_I64;
    struct ak_tensor one = {.dtype = wide, .data = real ? (void *)&(double){1} : (void *)&(int64_t){1}};
    int64_t *at[9] = {places(&p, a, 0, &r.batch), places(&p, a, 0, &r.m),     places(&p, a, 0, &r.k), places(&p, b, 1, &r.batch),
                      places(&p, b, 1, &r.k),     places(&p, b, 1, &r.n),     places(&q, o, 0, &r.batch), places(&q, o, 0, &r.m),
                      places(&q, o, 0, &r.n)};
    int64_t m = r.m.count, n = r.n.count, k = r.k.count;
    double *x = ak_malloc((size_t)(m * k + k * n + m * n + 1) * sizeof *x), *y = x + m * k, *z = y + k * n;
    struct ak_gemm g = {.m = m, .n = n, .k = k, .alpha = 1};
    g.a = (struct ak_mat){.dtype = wide, .data = x, .row = k, .col = 1};
    g.b = (struct ak_mat){.dtype = wide, .data = y, .row = n, .col = 1};
    g.out = (struct ak_mat){.dtype = wide, .data = z, .row = n, .col = 1};
    for (int64_t i = 0; i < r.batch.count; i++) {
        gather(a, at[0][i], at[1], m, at[2], k, x, real);
        gather(b ? b : &one, at[3][i], at[4], k, at[5], n, y, real);
        ak_gemm(&g);
        scatter(o, at[6][i], at[7], m, at[8], n, z, real);
    }
    for (size_t i = 0; i < 9; i++)
        free(at[i]);
    free(x);
    return 0;
}

/* 2 a multiply-add over all letters, as if done in one product. */
static double flops(const struct ak_opcall *c) {
    struct plan p;
    struct ak_err err;
    double n = 2;
    if (parse(&p, c, &err)) return 0;
    for (int l = 0; l < LETTERS; l++)
        if (p.size[l] >= 0) n *= (double)p.size[l];
    return n;
}

static const struct ak_op rows[] = {
    {.schema = "aten.einsum.default(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", .infer = infer, .run = run, .flops = flops},
};
AK_ROWS(ak_ops_einsum, rows);
