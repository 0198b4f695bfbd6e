/* Padding: pairs (before, after), the last dim first; negative ones cut. */
#include <string.h>

#include "walk.h"

enum mode { CONSTANT, REFLECT, REPLICATE, CIRCULAR };

static int mode_of(const struct ak_opcall *c, enum mode *m, struct ak_err *err) {
    static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
    for (int i = 0; i < 4; i++)
        if (strcmp(c->in[2].s, names[i]) == 0) {
            *m = (enum mode)i;
            return 0;
        }
    return ak_bad(err, "padding mode '%s' is unknown", c->in[2].s);
}

static int shape_of(const struct ak_opcall *c, enum mode m, int64_t *before, struct ak_tensor *o, struct ak_err *err) {
    const struct ak_tensor *t = ak_arg(c, 0);
    if (!t || c->in[1].kind != AK_VAL_INTS || c->in[1].ints.n % 2 || c->in[1].ints.n / 2 > (size_t)t->ndim)
        return ak_bad(err, "pairs for at most the tensor's dims are wanted");
    *o = *t;
    for (int d = 0; d < t->ndim; d++)
        before[d] = 0;
    for (size_t i = 0; i < c->in[1].ints.n / 2; i++) {
        int d = t->ndim - 1 - (int)i;
        int64_t a = c->in[1].ints.v[2 * i], b = c->in[1].ints.v[2 * i + 1], n = t->shape[d], most = m == REFLECT ? n - 1 : n;
        if (__builtin_add_overflow(n, a, &o->shape[d]) || __builtin_add_overflow(o->shape[d], b, &o->shape[d]) || o->shape[d] < 0)
            return ak_bad(err, "the padding (%lld, %lld) of dim %d is out of range", (long long)a, (long long)b, d);
        if ((m == REFLECT || m == CIRCULAR) && (a > most || b > most)) return ak_bad(err, "more padding than dim %d has", d);
        if (m == REPLICATE && n == 0) return ak_bad(err, "an empty dim has nothing to repeat");
        before[d] = a;
    }
    return 0;
}

/* Where output index i of a dim of n comes from. */
static int64_t source(enum mode m, int64_t i, int64_t n) {
    if (m == REPLICATE) return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (m == CIRCULAR) return i < 0 ? i + n : i >= n ? i - n : i;
    return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
}

static void constant(struct ak_opcall *c, const int64_t *before) {
    struct ak_tensor from = *ak_arg(c, 0), to = c->out[0];
    double real = c->nin > 2 && !ak_none(c, c->nin - 1) ? ak_num(c, c->nin - 1) : 0;
    ak_fill(&to, real, ak_whole(real));
    for (int d = 0; d < to.ndim; d++) { /* the part that both have */
        int64_t first = before[d] < 0 ? -before[d] : 0, last = c->out[0].shape[d] - before[d];
        if (last > from.shape[d]) last = from.shape[d];
        if (last <= first) return;
        from.offset += first * from.stride[d];
        to.offset += (first + before[d]) * to.stride[d];
        from.shape[d] = to.shape[d] = last - first;
    }
    ak_copy(&to, &from);
}

static void mirrored(struct ak_opcall *c, enum mode m, const int64_t *before) {
    const struct ak_tensor *t = ak_arg(c, 0), *o = &c->out[0];
    int64_t n = ak_numel(o);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, at = t->offset;
        for (int d = o->ndim - 1; d >= 0; d--) {
            at += source(m, rest % o->shape[d] - before[d], t->shape[d]) * t->stride[d];
            rest /= o->shape[d];
        }
        if (ak_dtype_is_float(t->dtype))
            ak_store(o->dtype, o->data, o->offset + k, ak_load(t->dtype, t->data, at));
        else
            ak_store_i64(o->dtype, o->data, o->offset + k, ak_load_i64(t->dtype, t->data, at));
    }
}

static int infer(struct ak_opcall *c, enum mode m, struct ak_err *err) {
    int64_t before[AK_MAX_DIMS];
    struct ak_tensor o;
    return shape_of(c, m, before, &o, err) ? -1 : ak_out(c, o.dtype, o.ndim, o.shape);
}
static int run(struct ak_opcall *c, enum mode m, struct ak_err *err) {
    int64_t before[AK_MAX_DIMS];
    struct ak_tensor o;
    if (shape_of(c, m, before, &o, err)) return -1;
    if (m == CONSTANT)
        constant(c, before);
    else
        mirrored(c, m, before);
    return 0;
}

static int infer_pad(struct ak_opcall *c, struct ak_err *err) {
    enum mode m = CONSTANT;
    return mode_of(c, &m, err) ? -1 : infer(c, m, err);
}
static int run_pad(struct ak_opcall *c, struct ak_err *err) {
    enum mode m = CONSTANT;
    return mode_of(c, &m, err) ? -1 : run(c, m, err);
}
static int infer_constant(struct ak_opcall *c, struct ak_err *err) { return infer(c, CONSTANT, err); }
static int run_constant(struct ak_opcall *c, struct ak_err *err) { return run(c, CONSTANT, err); }
static int infer_reflect(struct ak_opcall *c, struct ak_err *err) { return infer(c, REFLECT, err); }
static int run_reflect(struct ak_opcall *c, struct ak_err *err) { return run(c, REFLECT, err); }
static int infer_replicate(struct ak_opcall *c, struct ak_err *err) { return infer(c, REPLICATE, err); }
static int run_replicate(struct ak_opcall *c, struct ak_err *err) { return run(c, REPLICATE, err); }

#define ROW(s, name) {.schema = "aten." s, .infer = infer_##name, .run = run_##name}

static const struct ak_op rows[] = {
    ROW("pad.default(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad),
    ROW("constant_pad_nd.default(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", constant),
    ROW("reflection_pad1d.default(Tensor self, SymInt[2] padding) -> Tensor", reflect),
    ROW("reflection_pad2d.default(Tensor self, SymInt[4] padding) -> Tensor", reflect),
    ROW("replication_pad1d.default(Tensor self, SymInt[2] padding) -> Tensor", replicate),
    ROW("replication_pad2d.default(Tensor self, SymInt[4] padding) -> Tensor", replicate),
};
AK_ROWS(ak_ops_pad, rows);
