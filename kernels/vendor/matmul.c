/* ak: types matmul */
/* The opponent of every linear layer: OpenBLAS's sgemm, one call a batch entry, the bias laid into
 * the output before it. f32. */
#include <cblas.h>

#include "ak_kernel.h"

static int f32(const DLTensor *t) { return ak_is_dtype(t, kDLFloat, 32); }

/* A matrix that sgemm can read: one of its two strides is 1. A dim of size 1 has any stride. */
static int readable(const DLTensor *t) {
    return t->ndim == 3 && f32(t) && (t->strides[2] == 1 || t->shape[2] <= 1 || t->strides[1] == 1 || t->shape[1] <= 1);
}

int ak_query(const struct ak_call *call, struct ak_needs *needs) {
    const DLTensor *a = ak_tensor_arg(call, 0), *b = ak_tensor_arg(call, 1), *bias = ak_tensor_arg(call, 2), *out = ak_tensor_arg(call, 3);
    *needs = (struct ak_needs){0, 0};
    if (!readable(a) || !readable(b) || out->ndim != 3 || !f32(out) || (out->strides[2] != 1 && out->shape[2] > 1)) return AK_UNSUPPORTED;
    return bias && !f32(bias) ? AK_UNSUPPORTED : AK_OK;
}

/* How sgemm is to read a matrix: its leading dimension is the stride of the dim that is not
 * contiguous, and at least the length of the one that is. */
struct side {
    enum CBLAS_TRANSPOSE trans;
    int64_t ld;
};
static struct side side(const DLTensor *t) {
    int plain = t->strides[2] == 1 || t->shape[2] <= 1;
    int64_t along = plain ? t->shape[2] : t->shape[1], lines = plain ? t->shape[1] : t->shape[2];
    int64_t ld = lines > 1 ? t->strides[plain ? 1 : 2] : along;
    return (struct side){plain ? CblasNoTrans : CblasTrans, ld > along ? ld : along > 1 ? along : 1};
}

int ak_launch(const struct ak_call *call) {
    const DLTensor *a = ak_tensor_arg(call, 0), *b = ak_tensor_arg(call, 1), *bias = ak_tensor_arg(call, 2), *out = ak_tensor_arg(call, 3);
    const float *pa = ak_data(call, 0), *pb = ak_data(call, 1), *pbias = ak_data(call, 2);
    float *po = ak_data(call, 3);
    int64_t batch = out->shape[0], m = out->shape[1], n = out->shape[2], k = a->shape[2];
    int64_t ldo = m > 1 ? out->strides[1] : n > 0 ? n : 1;
    struct side sa = side(a), sb = side(b);
    for (int64_t i = 0; i < batch; i++) {
        float *o = po + i * out->strides[0];
        for (int64_t r = 0; r < m && (bias || k == 0); r++)
            for (int64_t c = 0; c < n; c++)
                o[r * ldo + c] = bias ? pbias[c * bias->strides[0]] : 0;
        if (m > 0 && n > 0 && k > 0)
            cblas_sgemm(CblasRowMajor, sa.trans, sb.trans, (int)m, (int)n, (int)k, 1, pa + i * a->strides[0], (int)sa.ld, pb + i * b->strides[0],
                        (int)sb.ld, bias ? 1 : 0, o, (int)ldo);
    }
    return AK_OK;
}
