/* Integers that a graph computes from shapes: they are known once shapes are bound. */
#include "args.h"
#include "families.h"

static int is(struct ak_opcall *c, int64_t v) {
    c->is_int = true;
    c->ival = v;
    return 0;
}
static int infer_size(struct ak_opcall *c, struct ak_err *err) {
    int d = ak_dim(ak_t(c, 0), ak_int(c, 1, 0), err);
    return d < 0 ? -1 : is(c, ak_t(c, 0)->shape[d]);
}
static int infer_numel(struct ak_opcall *c, struct ak_err *err) {
    (void)err;
    return is(c, ak_numel(ak_t(c, 0)));
}
static int overflow(struct ak_err *err) { return ak_fail(err, AK_EXIT_INPUT, "the result does not fit 64 bits"); }
#define BUILTIN(name, fn)                                                                                              \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) {                                                 \
        int64_t v;                                                                                                     \
        return fn(ak_int(c, 0, 0), ak_int(c, 1, 0), &v) ? overflow(err) : is(c, v);                                    \
    }
BUILTIN(add, __builtin_add_overflow)
BUILTIN(sub, __builtin_sub_overflow)
BUILTIN(mul, __builtin_mul_overflow)
static int infer_floordiv(struct ak_opcall *c, struct ak_err *err) {
    int64_t a = ak_int(c, 0, 0), b = ak_int(c, 1, 0);
    if (b == 0 || (a == INT64_MIN && b == -1)) return ak_fail(err, AK_EXIT_INPUT, "divides %lld by %lld", (long long)a, (long long)b);
    return is(c, a / b - (a % b != 0 && (a < 0) != (b < 0)));
}
static int infer_mod(struct ak_opcall *c, struct ak_err *err) {
    int64_t a = ak_int(c, 0, 0), b = ak_int(c, 1, 0);
    if (b == 0 || b == -1) return b ? is(c, 0) : ak_fail(err, AK_EXIT_INPUT, "divides by zero");
    int64_t r = a % b;
    return is(c, r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
static int infer_neg(struct ak_opcall *c, struct ak_err *err) {
    int64_t v;
    return __builtin_sub_overflow((int64_t)0, ak_int(c, 0, 0), &v) ? overflow(err) : is(c, v);
}
#define COMPARE(name, expr)                                                                                            \
    static int infer_##name(struct ak_opcall *c, struct ak_err *err) {                                                 \
        (void)err;                                                                                                     \
        int64_t a = ak_int(c, 0, 0), b = ak_int(c, 1, 0);                                                              \
        return is(c, expr);                                                                                            \
    }
COMPARE(eq, a == b)
COMPARE(ne, a != b)
COMPARE(lt, a < b)
COMPARE(le, a <= b)
COMPARE(gt, a > b)
COMPARE(ge, a >= b)
COMPARE(max, a > b ? a : b)
COMPARE(min, a < b ? a : b)

#define INT2(name, infer) {name "(int a, int b) -> int", infer, NULL, 0, NULL, NULL}
static const struct ak_op_row table[] = {
    {"aten.sym_size.int(Tensor self, int dim) -> int", infer_size, NULL, 0, NULL, NULL},
    {"aten.sym_numel.default(Tensor self) -> int", infer_numel, NULL, 0, NULL, NULL},
    INT2("_operator.add", infer_add), INT2("_operator.sub", infer_sub), INT2("_operator.mul", infer_mul), INT2("_operator.floordiv", infer_floordiv),
    INT2("_operator.mod", infer_mod), INT2("_operator.eq", infer_eq), INT2("_operator.ne", infer_ne), INT2("_operator.lt", infer_lt),
    INT2("_operator.le", infer_le), INT2("_operator.gt", infer_gt), INT2("_operator.ge", infer_ge), INT2("torch.sym_max", infer_max),
    INT2("torch.sym_min", infer_min),
    {"_operator.neg(int a) -> int", infer_neg, NULL, 0, NULL, NULL},
};
AK_FAMILY(ak_family_sym, table);
