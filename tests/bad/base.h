/* A right kernel to spoil: the opponent of the type (-DHONEST='"../../kernels/vendor/softmax.c"')
 * as honest_query and honest_launch; the file that includes this defines ak_query and ak_launch. */
#define ak_query honest_query
#define ak_prepare honest_prepare
#define ak_launch honest_launch
#include HONEST
#undef ak_query
#undef ak_prepare
#undef ak_launch

AK_EXPORT int ak_query(const struct ak_call *call, struct ak_needs *needs);
AK_EXPORT int ak_prepare(const struct ak_call *call);
AK_EXPORT int ak_launch(const struct ak_call *call);

#ifndef OWN_QUERY
int ak_query(const struct ak_call *call, struct ak_needs *needs) { return honest_query(call, needs); }
#endif

/* The first argument of a role, or the last. */
static inline const DLTensor *spoil_first(const struct ak_call *c, int role) {
    for (uint32_t i = 0; i < c->nargs; i++)
        if (c->args[i].role == role) return c->args[i].tensor;
    return NULL;
}
static inline int64_t spoil_numel(const DLTensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}
static inline float *spoil_at(const DLTensor *t, int64_t k) {
    int64_t e = 0;
    for (int i = t->ndim - 1; i >= 0; i--) {
        e += k % t->shape[i] * t->strides[i];
        k /= t->shape[i];
    }
    return (float *)((char *)t->data + t->byte_offset) + e;
}
#define OUT spoil_first(call, AK_ROLE_OUTPUT)
#define IN spoil_first(call, AK_ROLE_INPUT)
