/* The op set: what each ATen op means.
 *
 * An op is a row of a table: its ATen schema string, `infer` (shapes, dtypes, strides of the
 * outputs from those of the inputs, without data) and `run` (the values, accumulated in double).
 * The schema string gives the names, types and defaults of the arguments; `in` of a call is in
 * schema order with every default filled in.
 */
#ifndef AK_OP_H
#define AK_OP_H

#include "err.h"
#include "tensor.h"

enum { AK_MAX_ARGS = 16, AK_MAX_OUTS = 16 };

enum ak_val_kind {
    AK_VAL_NONE,    /* an absent optional */
    AK_VAL_TENSOR,  /* t */
    AK_VAL_TENSORS, /* ts: Tensor[] or Tensor?[]; an absent entry is NULL */
    AK_VAL_INT,     /* i; also ScalarType (an ak_dtype), MemoryFormat, Layout, SymInt once bound */
    AK_VAL_INTS,    /* ints */
    AK_VAL_FLOAT,   /* f */
    AK_VAL_FLOATS,  /* floats */
    AK_VAL_BOOL,    /* i, 0 or 1 */
    AK_VAL_STR      /* s; also Device */
};

struct ak_val {
    enum ak_val_kind kind;
    union {
        const struct ak_tensor *t;
        struct {
            const struct ak_tensor *const *v;
            size_t n;
        } ts;
        int64_t i;
        double f;
        struct {
            const int64_t *v;
            size_t n;
        } ints;
        struct {
            const double *v;
            size_t n;
        } floats;
        const char *s;
    };
};

struct ak_op;

struct ak_opcall {
    const struct ak_op *op;
    struct ak_val in[AK_MAX_ARGS]; /* one per schema argument */
    size_t nin;
    /* infer fills dtype, shape, stride, offset and nout. run finds data set for every output
     * whose alias is 0 (the executor allocated it), and computes the elements. */
    struct ak_tensor out[AK_MAX_OUTS];
    /* 0, or 1 + index of the `in` argument whose storage this output views (the same data
     * pointer; infer set the offset and strides). run is not asked to write such outputs. */
    int alias[AK_MAX_OUTS];
    size_t nout;
    /* Ops that yield an integer or boolean, not a tensor (sym_size, _operator.mul): infer sets it; nout is 0. */
    bool is_int;
    int64_t ival;
};

enum ak_op_flag {
    AK_OP_VIEW = 1,      /* outputs may alias an input (alias[] says so call by call) */
    AK_OP_INPLACE = 2,   /* writes its first argument; `functional` names the op it means */
    AK_OP_EFFECT = 4,    /* no result but an effect or an assertion (_assert_tensor_metadata): may be dropped */
    AK_OP_POINTWISE = 8, /* output element depends on the matching input elements only */
    AK_OP_RANDOM = 16
};

struct ak_op {
    const char *schema; /* "aten.linear.default(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor" */
    int (*infer)(struct ak_opcall *call, struct ak_err *err);
    int (*run)(struct ak_opcall *call, struct ak_err *err); /* NULL for pure views and integer ops */
    unsigned flags;
    const char *functional; /* for AK_OP_INPLACE: "aten.relu.default" */
    /* Floating-point operations of the call (2 a multiply-add), NULL: one an output element if
     * AK_OP_POINTWISE, else 0. Formula's source beside it. */
    double (*flops)(const struct ak_opcall *call);

    /* filled by ak_op_find on first use, from the schema */
    char *name; /* "aten.linear.default" */
    size_t nargs, nouts;
    struct ak_op_arg {
        char *name;
        const char *type; /* "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "int", "int[]", "float", "bool", "Scalar", "str", "ScalarType", ... ("SymInt" is "int") */
        bool optional, has_default, kwarg_only;
        struct ak_val def;
    } *args;
};

/* The op named "aten.linear.default" ("aten.linear" means .default; the torch.ops. prefix is
 * not part of the name); NULL if the set has none. */
const struct ak_op *ak_op_find(const char *name);
/* Index of the schema argument `name`, or -1. */
int ak_op_arg_index(const struct ak_op *op, const char *name);
/* All ops, for listing. */
size_t ak_op_count(void);
const struct ak_op *ak_op_at(size_t i);
/* Names near a misspelt one, for messages: "aten.softmax.int, aten.log_softmax.int" into buf. */
char *ak_op_near(const char *name, char *buf, size_t size);

/* Runs infer and checks its result is sane (extent not negative, numel fits). Errors name the op. */
int ak_op_infer(struct ak_opcall *call, struct ak_err *err);
int ak_op_run(struct ak_opcall *call, struct ak_err *err);
double ak_op_flops(const struct ak_opcall *call);

#endif
