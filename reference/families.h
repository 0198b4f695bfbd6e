/* The rows of the op set by nature. */
#ifndef AK_FAMILIES_H
#define AK_FAMILIES_H

#include "op.h"

/* The fields of struct ak_op that a table gives. */
struct ak_op_row {
    const char *schema;
    int (*infer)(struct ak_opcall *call, struct ak_err *err);
    int (*run)(struct ak_opcall *call, struct ak_err *err);
    unsigned flags;
    const char *functional;
    double (*flops)(const struct ak_opcall *call);
};

struct ak_op_family {
    const struct ak_op_row *ops;
    size_t n;
};
#define AK_FAMILY(name, table) const struct ak_op_family name = {table, sizeof(table) / sizeof *(table)}

extern const struct ak_op_family ak_family_pointwise, ak_family_shape, ak_family_create, ak_family_matmul, ak_family_reduce,
    ak_family_norm, ak_family_conv, ak_family_pool, ak_family_gather, ak_family_loss, ak_family_sym;

#endif
