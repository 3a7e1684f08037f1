#include <troupe/kernels/ops/cpu/matmul.h>

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>

namespace troupe::ops::cpu {
namespace {

template <class T>
void scale(int64_t n, T beta, T* c) {
  // Not a product with 0: c may hold anything, NaN too.
  if (beta == T{0})
    std::fill(c, c + n, T{0});
  else if (beta != T{1})
    for (int64_t i = 0; i < n; ++i) c[i] *= beta;
}

}  // namespace

void matmul(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
            float beta, float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(m * n, beta, c);
  const dnnl_status_t status =
      dnnl_sgemm(trans_a == Trans::yes ? 'T' : 'N', trans_b == Trans::yes ? 'T' : 'N', m, n, k, 1.0f, a,
                 trans_a == Trans::yes ? m : k, b, trans_b == Trans::yes ? k : n, beta, c, n);
  TROUPE_CHECK(status == dnnl_success, "dnnl_sgemm ", m, " x ", n, " x ", k, " returned ", status);
}

void matmul(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, const double* a, const double* b,
            double beta, double* c) {
  scale(m * n, beta, c);
  const auto a_at = [&](int64_t i, int64_t l) { return trans_a == Trans::yes ? a[l * m + i] : a[i * k + l]; };
  for (int64_t i = 0; i < m; ++i) {
    double* const row = c + i * n;
    if (trans_b == Trans::yes) {
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l) row[j] += a_at(i, l) * b[j * k + l];
    } else {
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j) row[j] += a_at(i, l) * b[l * n + j];
    }
  }
}

void matmul_rows(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, float alpha, Rows<const float> a,
                 Rows<const float> b, float beta, Rows<float> c) {
  const dnnl_status_t status =
      dnnl_sgemm(trans_a == Trans::yes ? 'T' : 'N', trans_b == Trans::yes ? 'T' : 'N', m, n, k, alpha, a.data, a.stride,
                 b.data, b.stride, beta, c.data, c.stride);
  TROUPE_CHECK(status == dnnl_success, "dnnl_sgemm ", m, " x ", n, " x ", k, " returned ", status);
}

void matmul_rows(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, double alpha, Rows<const double> a,
                 Rows<const double> b, double beta, Rows<double> c) {
  for (int64_t i = 0; i < m; ++i) {
    double* const row = c.data + i * c.stride;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (trans_a == Trans::yes ? a.data[l * a.stride + i] : a.data[i * a.stride + l]) *
               (trans_b == Trans::yes ? b.data[j * b.stride + l] : b.data[l * b.stride + j]);
      row[j] = alpha * sum + (beta == 0 ? 0 : beta * row[j]);
    }
  }
}

}  // namespace troupe::ops::cpu
