/* ak: types flash_attention */
/* The opponent of attention: for a block of queries of one head sgemm, an honest softmax, sgemm.
 * Heads and blocks are shared among threads, each with an OpenBLAS of one thread. f32. */
#include <cblas.h>
#include <math.h>
#include <omp.h>

#include "ak_kernel.h"

enum { Q, K, V, MASK, OUT, ROWS = 64 };

static int rows_ok(const DLTensor *t) { return ak_is_dtype(t, kDLFloat, 32) && t->ndim == 4 && (t->strides[3] == 1 || t->shape[3] <= 1); }

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *mask = ak_tensor_arg(call, MASK);
    for (uint32_t i = 0; i <= OUT; i++)
        if (i != MASK && !rows_ok(ak_tensor_arg(call, i))) return AK_UNSUPPORTED;
    if (mask && !ak_is_dtype(mask, kDLFloat, 32) && mask->dtype.bits != 8) return AK_UNSUPPORTED;
    int64_t keys = ak_tensor_arg(call, K)->shape[2];
    *needs = (struct ak_needs){(size_t)omp_get_max_threads() * ROWS * (size_t)(keys ? keys : 1) * sizeof(float), 0};
    return AK_OK;
}

static const float *row(const DLTensor *t, int64_t b, int64_t h, int64_t s) {
    return (const float *)((const char *)t->data + t->byte_offset) + b * t->strides[0] + h * t->strides[1] + s * t->strides[2];
}

static void add_mask(float *s, const DLTensor *mask, int64_t b, int64_t h, int64_t i, int64_t keys) {
    int64_t step = mask->shape[3] == 1 ? 0 : mask->strides[3];
    int64_t at = (mask->shape[0] == 1 ? 0 : b * mask->strides[0]) + (mask->shape[1] == 1 ? 0 : h * mask->strides[1]) +
                 (mask->shape[2] == 1 ? 0 : i * mask->strides[2]);
    const char *data = (const char *)mask->data + mask->byte_offset;
    if (mask->dtype.bits == 8) {
        for (int64_t j = 0; j < keys; j++)
            if (!((const uint8_t *)data)[at + j * step]) s[j] = -INFINITY;
    } else {
        for (int64_t j = 0; j < keys; j++)
            s[j] += ((const float *)data)[at + j * step];
    }
}

static void softmax(float *s, int64_t n, int64_t all) {
    float max = -INFINITY, sum = 0;
    int nan = 0;
#pragma omp simd reduction(max : max) reduction(| : nan)
    for (int64_t j = 0; j < n; j++) {
        max = s[j] > max ? s[j] : max;
        nan |= s[j] != s[j];
    }
    if (max == -INFINITY && !nan) max = 0; /* a fully masked row: every weight is zero */
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        s[j] = expf(s[j] - max);
        sum += s[j];
    }
    float scale = sum == 0 ? 0 : 1 / sum;
    for (int64_t j = 0; j < n; j++)
        s[j] *= scale;
    for (int64_t j = n; j < all; j++)
        s[j] = 0;
}

static int64_t ld(const DLTensor *t) { return t->shape[2] > 1 ? t->strides[2] : t->shape[3] > 0 ? t->shape[3] : 1; }

int ak_launch(const struct ak_call *call) {
    const DLTensor *q = ak_tensor_arg(call, Q), *k = ak_tensor_arg(call, K), *v = ak_tensor_arg(call, V), *mask = ak_tensor_arg(call, MASK),
                   *out = ak_tensor_arg(call, OUT);
    int64_t batch = q->shape[0], heads = q->shape[1], queries = q->shape[2], dim = q->shape[3], keys = k->shape[2], dv = v->shape[3];
    int64_t share = k->shape[1] ? heads / k->shape[1] : 1, blocks = (queries + ROWS - 1) / ROWS;
    float scale = (float)ak_attr_real(call, "scale", dim ? 1 / sqrt((double)dim) : 1);
    int causal = (int)ak_attr_int(call, "causal", 0), threads = omp_get_max_threads();
    if (threads > 1) openblas_set_num_threads(1);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t t = 0; t < batch * heads * blocks; t++) {
        int64_t block = blocks - 1 - t % blocks, h = t / blocks % heads, b = t / blocks / heads; /* longest first */
        int64_t first = block * ROWS, rows = queries - first < ROWS ? queries - first : ROWS;
        int64_t seen = causal && first + rows < keys ? first + rows : keys;
        float *s = (float *)call->scratch + (size_t)omp_get_thread_num() * ROWS * (size_t)keys;
        float *o = (float *)row(out, b, h, first);
        if (seen > 0)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)seen, (int)dim, scale, row(q, b, h, first), (int)ld(q),
                        row(k, b, h / share, 0), (int)ld(k), 0, s, (int)keys);
        for (int64_t i = 0; i < rows; i++) {
            int64_t n = causal && first + i + 1 < seen ? first + i + 1 : seen;
            if (mask) add_mask(s + i * keys, mask, b, h, first + i, n);
            softmax(s + i * keys, n, seen);
        }
        for (int64_t i = 0; i < rows && seen == 0; i++)
            for (int64_t d = 0; d < dv; d++)
                o[i * ld(out) + d] = 0;
        if (seen > 0 && dv > 0)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)dv, (int)seen, 1, s, (int)keys, row(v, b, h / share, 0), (int)ld(v), 0,
                        o, (int)ld(out));
    }
    if (threads > 1) openblas_set_num_threads(threads);
    return AK_OK;
}
