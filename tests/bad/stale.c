/* must fail: wrong: wrong value */
#include "base.h"
/* Keeps the last answer for the same pointers and the same first 64 numbers. */
static struct { const void *in, *out; float print[64]; int64_t n; float answer[1 << 20]; } kept[64];
int ak_launch(const struct ak_call *call) {
    const DLTensor *x = IN, *o = OUT;
    int64_t n = spoil_numel(o), m = spoil_numel(x) < 64 ? spoil_numel(x) : 64;
    int slot = (int)((uintptr_t)x->data / 4096 % 64);
    int same = kept[slot].in == x->data && kept[slot].out == o->data && kept[slot].n == n;
    for (int64_t k = 0; same && k < m; k++) same = kept[slot].print[k] == *spoil_at(x, k);
    if (same) {
        for (int64_t k = 0; k < n; k++) *spoil_at(o, k) = kept[slot].answer[k];
        return AK_OK;
    }
    int rc = honest_launch(call);
    if (n > 1 << 20) return rc;
    kept[slot].in = x->data, kept[slot].out = o->data, kept[slot].n = n;
    for (int64_t k = 0; k < m; k++) kept[slot].print[k] = *spoil_at(x, k);
    for (int64_t k = 0; k < n; k++) kept[slot].answer[k] = *spoil_at(o, k);
    return rc;
}
