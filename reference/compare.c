/* Comparisons and logic: booleans out. */
#include "walk.h"

#define FN(name, expr)                                                                                                 \
    static void real_##name(const double *const *x, double *y, int64_t n, const double *p) {                           \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = x[0][i], b = x[1][i];                                                                           \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void whole_##name(const int64_t *const *x, int64_t *y, int64_t n, const double *p) {                        \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t a = x[0][i], b = x[1][i];                                                                          \
            y[i] = (expr);                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static int run_##name(struct ak_opcall *c, struct ak_err *err) {                                                   \
        (void)err;                                                                                                     \
        enum ak_dtype common = ak_result_type(c, 0, 2);                                                                \
        return ak_pointwise(c, &(struct ak_pointwise){.n = 2, .arg = {0, 1}, .common = common, .real = real_##name, .whole = whole_##name}); \
    }

FN(eq, a == b)
FN(ne, a != b)
FN(lt, a < b)
FN(le, a <= b)
FN(gt, a > b)
FN(ge, a >= b)
FN(logical_and, a != 0 && b != 0)
FN(logical_or, a != 0 || b != 0)
FN(logical_xor, (a != 0) != (b != 0))

static int infer(struct ak_opcall *c, struct ak_err *err) { return ak_out_broadcast(c, 0, 2, AK_BOOL, err); }

#define T(name, r) {.schema = "aten." name "(Tensor self, Tensor other) -> Tensor", .infer = infer, .run = r, .flags = AK_OP_POINTWISE}
#define S(name, r) {.schema = "aten." name "(Tensor self, Scalar other) -> Tensor", .infer = infer, .run = r, .flags = AK_OP_POINTWISE}
#define BOTH(name) T(#name ".Tensor", run_##name), S(#name ".Scalar", run_##name)

static const struct ak_op rows[] = {
    BOTH(eq),
    BOTH(ne),
    BOTH(lt),
    BOTH(le),
    BOTH(gt),
    BOTH(ge),
    T("logical_and.default", run_logical_and),
    T("logical_or.default", run_logical_or),
    T("logical_xor.default", run_logical_xor),
};
AK_ROWS(ak_ops_compare, rows);
