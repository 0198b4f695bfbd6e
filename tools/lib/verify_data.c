/* What verification compares and draws. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rand.h"
#include "verify.h"

static bool alike(double a, double b) { return isnan(a) ? isnan(b) : a == b; }

static void widen_diff(struct ak_diff *d, double err, int64_t at) {
    if (err <= d->err) return;
    d->err = err;
    d->at = at;
}

/* Beyond 2^53 doubles would call neighbours equal. */
static void diff_i64(struct ak_diff *d, const struct ak_tensor *got, const struct ak_tensor *want) {
    int64_t n = ak_numel(want);
    for (int64_t k = 0; k < n; k++) {
        int64_t a = ak_load_i64(got->dtype, got->data, ak_index(got, k)), b = ak_load_i64(want->dtype, want->data, ak_index(want, k));
        d->scale = fmax(d->scale, fabs((double)b));
        if (a != b) widen_diff(d, fmax(1, fabs((double)a - (double)b)), k);
    }
}

struct ak_diff ak_diff_of(const struct ak_tensor *got, const struct ak_tensor *want) {
    struct ak_diff d = {0};
    if (!ak_dtype_is_float(want->dtype)) {
        diff_i64(&d, got, want);
        return d;
    }
    int64_t n = ak_numel(want);
    for (int64_t k = 0; k < n; k++) {
        double a = ak_get(got, k), b = ak_get(want, k);
        if (isfinite(b)) d.scale = fmax(d.scale, fabs(b));
        if (isfinite(a) && isfinite(b))
            widen_diff(&d, fabs(a - b), k);
        else if (!alike(a, b))
            widen_diff(&d, INFINITY, k);
    }
    return d;
}

struct ak_tensor ak_tensor_copy(const struct ak_tensor *t) {
    struct ak_tensor c = ak_tensor_new(t->dtype, t->ndim, t->shape);
    c.data = ak_malloc((size_t)ak_numel(t) * ak_dtype_size(t->dtype) + 64);
    ak_tensor_assign(&c, t);
    return c;
}

static void draw(const struct ak_value *v, struct ak_tensor *t, uint64_t seed) {
    size_t bytes = (size_t)ak_extent(t) * ak_dtype_size(t->dtype);
    t->data = ak_calloc(bytes + 64, 1);
    uint64_t stream = ak_rand_seed(seed, v->name);
    if (ak_dtype_is_float(t->dtype))
        ak_rand_fill_normal(t, stream, 0, 1);
    else if (t->dtype == AK_BOOL)
        ak_rand_fill_int(t, stream, 0, 2);
    else
        ak_rand_fill_int(t, stream, v->lo, v->hi > v->lo ? v->hi : v->lo + 1);
}

struct ak_tensor *ak_inputs_draw(const struct ak_graph *g, uint64_t seed) {
    struct ak_tensor *inputs = ak_calloc(g->ninputs + 1, sizeof *inputs);
    for (size_t i = 0; i < g->ninputs; i++) {
        inputs[i] = g->values[g->inputs[i]].t;
        draw(&g->values[g->inputs[i]], &inputs[i], seed);
    }
    return inputs;
}

void ak_inputs_free(const struct ak_graph *g, struct ak_tensor *inputs) {
    for (size_t i = 0; inputs && i < g->ninputs; i++)
        free(inputs[i].data);
    free(inputs);
}
