/* Elements written where index tensors say. Later ones win over earlier ones (PyTorch leaves the order open). */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "walk.h"

static void put(const struct ak_tensor *o, int64_t at, const struct ak_tensor *from, int64_t from_at, bool add) {
    if (ak_dtype_is_float(o->dtype)) {
        ak_store(o->dtype, o->data, at, ak_load(from->dtype, from->data, from_at) + (add ? ak_load(o->dtype, o->data, at) : 0));
    } else {
        int64_t v = ak_load_i64(from->dtype, from->data, from_at) + (add ? ak_load_i64(o->dtype, o->data, at) : 0);
        ak_store_run_i64(o->dtype, o->data, at, 1, 1, &v);
    }
}

/* ---- scatter(self, dim, index, src or value): out[index[i][j]][j] = src[i][j] for dim 0 ---- */

static int infer_scatter(struct ak_opcall *c, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *x = ak_arg(c, 2), *s = ak_arg(c, 3);
    int d;
    if (!t || !x || x->dtype != AK_I64) return ak_bad(err, "i64 indices are wanted");
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    bool fits = x->ndim == t->ndim && (!s || s->ndim == t->ndim);
    for (int i = 0; fits && i < x->ndim; i++)
        fits = (i == d || x->shape[i] <= t->shape[i]) && (!s || x->shape[i] <= s->shape[i]);
    if (!fits && ak_numel(x)) return ak_bad(err, "the index is larger than the tensor or the source");
    if (s && s->dtype != t->dtype) return ak_bad(err, "the dtypes differ");
    return ak_infer_same(c, err);
}
/* x placed over `to`, which is row-major and holds the input already. */
static void place(const struct ak_tensor *to, int d, const int64_t *at, const struct ak_tensor *index, const struct ak_tensor *src, bool add) {
    struct ak_tensor base = ak_tensor_new(to->dtype, index->ndim, index->shape), from = *src;
    for (int i = 0; i < index->ndim; i++) {
        base.stride[i] = i == d ? 0 : to->stride[i];
        from.shape[i] = index->shape[i];
    }
    base.offset = to->offset;
    for (int64_t i = 0, n = ak_numel(index); i < n; i++)
        put(to, ak_index(&base, i) + (to->ndim ? at[i] * to->stride[d] : 0), &from, ak_index(&from, i), add);
}

/* Sums are kept in double until all have been added. */
static int scatter(struct ak_opcall *c, bool add, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0), *x = ak_arg(c, 2), *o = &c->out[0];
    int d = 0;
    if (ak_dim(ak_int(c, 1), t->ndim, &d, err)) return -1;
    uint64_t number = 0;
    struct ak_tensor value = {.dtype = o->dtype, .data = &number};
    if (!ak_arg(c, 3)) ak_fill(&value, ak_num(c, 3), ak_int(c, 3));
    struct ak_tensor src = ak_arg(c, 3) ? *ak_arg(c, 3) : ak_expanded(&value, x->ndim, x->shape);
    int64_t n = ak_numel(x), size = t->ndim ? t->shape[d] : 1, *at = ak_wholes(x), bad = -1;
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= size) bad = i;
    if (bad >= 0) {
        ak_bad(err, "index %lld is out of range for %lld", (long long)at[bad], (long long)size);
        free(at);
        return -1;
    }
    struct ak_tensor sum = ak_tensor_new(ak_dtype_is_float(o->dtype) ? AK_F64 : o->dtype, o->ndim, o->shape);
    sum.data = ak_malloc((size_t)(ak_numel(o) + 1) * ak_dtype_size(sum.dtype));
    ak_copy(&sum, t);
    place(&sum, d, at, x, &src, add);
    ak_copy(o, &sum);
    free(sum.data);
    free(at);
    return 0;
}
static int run_scatter(struct ak_opcall *c, struct ak_err *err) { return scatter(c, false, err); }
static int run_scatter_add(struct ak_opcall *c, struct ak_err *err) { return scatter(c, true, err); }

/* ---- a part of the tensor replaced by src: slice_scatter, select_scatter ---- */

static int part_of(const struct ak_opcall *c, bool slice, struct ak_tensor *part, struct ak_err *err) {
    struct ak_opcall d = {0};
    const struct ak_op *op = ak_op_find(slice ? "aten.slice.Tensor" : "aten.select.int");
    const struct ak_tensor *s = ak_arg(c, 1);
    d.op = op;
    d.nin = op->nargs;
    d.in[0] = (struct ak_val){.kind = AK_VAL_TENSOR, .t = part};
    for (size_t i = 1; i < op->nargs; i++)
        d.in[i] = c->in[i + 1];
    struct ak_tensor whole = *part;
    d.in[0].t = &whole;
    if (!s || op->infer(&d, err)) return -1;
    *part = d.out[0];
    return ak_same_shape(part, s) ? 0 : ak_bad(err, "the source does not fit");
}
static int infer_part(struct ak_opcall *c, bool slice, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    struct ak_tensor part;
    if (!t || !ak_arg(c, 1)) return ak_bad(err, "two tensors are wanted");
    part = *t;
    return part_of(c, slice, &part, err) ? -1 : ak_infer_same(c, err);
}
static int run_part(struct ak_opcall *c, bool slice, struct ak_err *err) {
    struct ak_tensor part = c->out[0];
    ak_copy(&c->out[0], ak_arg(c, 0));
    if (part_of(c, slice, &part, err)) return -1;
    ak_copy(&part, ak_arg(c, 1));
    return 0;
}
static int infer_slice(struct ak_opcall *c, struct ak_err *err) { return infer_part(c, true, err); }
static int infer_select(struct ak_opcall *c, struct ak_err *err) { return infer_part(c, false, err); }
static int run_slice(struct ak_opcall *c, struct ak_err *err) { return run_part(c, true, err); }
static int run_select(struct ak_opcall *c, struct ak_err *err) { return run_part(c, false, err); }

#define ROW(s, i, r) {.schema = "aten." s, .infer = infer_##i, .run = run_##r}

static const struct ak_op rows[] = {
    ROW("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter, scatter),
    ROW("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", scatter, scatter),
    ROW("scatter_add.default(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter, scatter_add),
    ROW("slice_scatter.default(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", slice, slice),
    ROW("select_scatter.default(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select, select),
};
AK_ROWS(ak_ops_scatter, rows);
