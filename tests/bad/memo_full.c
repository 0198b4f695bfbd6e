/* must fail: refused: timing: */
/* type: matmul */
#include "base.h"
/* Keeps answers, by all of the first input, so that none is ever wrong. */
enum { PLACES = 256, LARGEST = 1 << 14 };
static float ins[PLACES][LARGEST], outs[PLACES][LARGEST];
static const void *seen[PLACES];
int ak_launch(const struct ak_call *call) {
    size_t m = (size_t)spoil_numel(IN) * sizeof(float), n = (size_t)spoil_numel(OUT) * sizeof(float);
    int i = 0, rc;
    while (i < PLACES && seen[i] && seen[i] != IN->data)
        i++;
    if (i == PLACES || m > sizeof ins[i] || n > sizeof outs[i]) return honest_launch(call);
    if (seen[i] && memcmp(ins[i], spoil_at(IN, 0), m) == 0) {
        memcpy(spoil_at(OUT, 0), outs[i], n);
        return AK_OK;
    }
    rc = honest_launch(call);
    seen[i] = IN->data;
    memcpy(ins[i], spoil_at(IN, 0), m);
    memcpy(outs[i], spoil_at(OUT, 0), n);
    return rc;
}
