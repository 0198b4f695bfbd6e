/* Sliding windows of convolutions and pools over 1 to 3 dims. */
#ifndef AK_WINDOW_H
#define AK_WINDOW_H

#include "walk.h"

enum { AK_WINDOW_DIMS = 3 };

struct ak_window {
    int dims;
    int64_t in[AK_WINDOW_DIMS], out[AK_WINDOW_DIMS], size[AK_WINDOW_DIMS], stride[AK_WINDOW_DIMS], pad[AK_WINDOW_DIMS],
        dilation[AK_WINDOW_DIMS];
};
/* How many windows fit, with `more` padding behind: floor, or ceil where the last window then begins inside the input or its left padding. */
int ak_window_out(struct ak_window *w, int64_t more, bool ceil, struct ak_err *err);
static inline int64_t ak_product(int n, const int64_t *v) {
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= v[i];
    return p;
}
/* Index k of a shape taken apart. */
static inline void ak_unravel(int n, const int64_t *shape, int64_t k, int64_t *at) {
    for (int i = n - 1; i >= 0; i--) {
        at[i] = k % shape[i];
        k /= shape[i];
    }
}

#endif
