#include <cmath>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

// x [m, n] with n > 0, and what goes with each of its rows and columns.
void expect_rows(const Tensor& x, const Tensor& mean, const Tensor& rstd) {
  expect_dims(x, 2, 2, "x");
  TROUPE_CHECK(x.shape()[1] > 0, "x is ", x.shape(), ": rows of nothing have no mean");
  expect(mean, x.dtype(), {x.shape()[0]}, "mean");
  expect(rstd, x.dtype(), {x.shape()[0]}, "rstd");
}

void layer_norm(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                Tensor& y, Tensor& mean, Tensor& rstd) {
  expect_rows(x, mean, rstd);
  const int64_t m = x.shape()[0], n = x.shape()[1];
  expect(gamma, x.dtype(), {n}, "gamma");
  expect(beta, x.dtype(), {n}, "beta");
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *g = gamma.data<T>(), *b = beta.data<T>();
    T *to = y.data<T>(), *means = mean.data<T>(), *rstds = rstd.data<T>();
    split(stream, m, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = from + r * n;
        T* out = to + r * n;
        const T mu = lane_sum<T>(n, [=](int64_t i) { return row[i]; }) / static_cast<T>(n);
        const T variance =
            lane_sum<T>(n, [=](int64_t i) { return (row[i] - mu) * (row[i] - mu); }) / static_cast<T>(n);
        const T s = static_cast<T>(1 / std::sqrt(static_cast<double>(variance) + epsilon));
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) out[i] = (row[i] - mu) * s * g[i] + b[i];
        means[r] = mu;
        rstds[r] = s;
      }
    });
  });
}

void input_gradient(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                    const Tensor& rstd, const Tensor& dy, Tensor& dx) {
  expect_rows(x, mean, rstd);
  const int64_t m = x.shape()[0], n = x.shape()[1];
  expect(gamma, x.dtype(), {n}, "gamma");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *g = gamma.data<T>(), *means = mean.data<T>(), *rstds = rstd.data<T>(),
            *grad = dy.data<T>();
    T* to = dx.data<T>();
    split(stream, m, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *row = from + r * n, *d = grad + r * n;
        T* out = to + r * n;
        const T mu = means[r], s = rstds[r];
        const T mean_g = lane_sum<T>(n, [=](int64_t i) { return d[i] * g[i]; }) / static_cast<T>(n);
        const T mean_gx =
            lane_sum<T>(n, [=](int64_t i) { return d[i] * g[i] * ((row[i] - mu) * s); }) / static_cast<T>(n);
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) out[i] = s * (d[i] * g[i] - mean_g - (row[i] - mu) * s * mean_gx);
      }
    });
  });
}

void weight_gradient(Stream&, const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                     Write write, Tensor& dgamma, Tensor& dbeta) {
  expect_rows(x, mean, rstd);
  const int64_t m = x.shape()[0], n = x.shape()[1];
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dgamma, x.dtype(), {n}, "dgamma");
  expect(dbeta, x.dtype(), {n}, "dbeta");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *means = mean.data<T>(), *rstds = rstd.data<T>(), *d = dy.data<T>();
    store(
        channel_sums<T>(
            m, n, 1, [=](int64_t r, int64_t, int64_t i) { return d[i] * ((from[i] - means[r]) * rstds[r]); }),
        write, dgamma.data<T>());
    store(channel_sums<T>(m, n, 1, [=](int64_t, int64_t, int64_t i) { return d[i]; }), write,
          dbeta.data<T>());
  });
}

}  // namespace

LayerNormOps layer_norm_ops() {
  return {layer_norm, input_gradient, weight_gradient};
}

}  // namespace troupe::ops::cpu
