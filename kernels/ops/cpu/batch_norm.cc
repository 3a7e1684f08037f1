#include <cmath>
#include <vector>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

void expect_channels(const Tensor& x, const Channels& shape,
                     std::initializer_list<const Tensor*> per_channel) {
  for (const Tensor* t : per_channel)
    expect(*t, x.dtype(), {shape.count}, "gamma, beta, mean, variance or a gradient");
}

// y[i] = f(c, i) for every element i of channel c.
template <class T, class F>
void map(const Stream& stream, const Channels& shape, T* y, F f) {
  split(stream, shape.outer, shape.count * shape.inner, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t first = o * shape.count * shape.inner;
      if (shape.inner == 1) {
#pragma GCC ivdep
        for (int64_t c = 0; c < shape.count; ++c) y[first + c] = f(c, first + c);
        continue;
      }
      for (int64_t c = 0; c < shape.count; ++c)
#pragma GCC ivdep
        for (int64_t i = first + c * shape.inner; i < first + (c + 1) * shape.inner; ++i) y[i] = f(c, i);
    }
  });
}

template <class T>
std::vector<T> rstd_of(const T* variance, int64_t channels, double epsilon) {
  std::vector<T> rstd(static_cast<size_t>(channels));
  for (size_t c = 0; c < rstd.size(); ++c)
    rstd[c] = static_cast<T>(1 / std::sqrt(static_cast<double>(variance[c]) + epsilon));
  return rstd;
}

void inference(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
               const Tensor& variance, double epsilon, Tensor& y) {
  const Channels shape(x, "x");
  expect_channels(x, shape, {&gamma, &beta, &mean, &variance});
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> rstds = rstd_of(variance.data<T>(), shape.count, epsilon);
    const T *from = x.data<T>(), *g = gamma.data<T>(), *b = beta.data<T>(), *mu = mean.data<T>(),
            *rstd = rstds.data();
    map(stream, shape, y.data<T>(),
        [=](int64_t c, int64_t i) { return (from[i] - mu[c]) * (rstd[c] * g[c]) + b[c]; });
  });
}

template <class T>
void batch_statistics(const Channels& shape, const T* x, T* mean, T* variance) {
  const double n = static_cast<double>(shape.outer * shape.inner);
  const auto sums = channel_sums<T>(shape.outer, shape.count, shape.inner,
                                    [=](int64_t, int64_t, int64_t i) { return x[i]; });
  for (size_t c = 0; c < sums.size(); ++c) mean[c] = n > 0 ? static_cast<T>(sums[c] / n) : T{0};
  const auto squares =
      channel_sums<T>(shape.outer, shape.count, shape.inner,
                      [=](int64_t, int64_t c, int64_t i) { return (x[i] - mean[c]) * (x[i] - mean[c]); });
  for (size_t c = 0; c < squares.size(); ++c) variance[c] = n > 0 ? static_cast<T>(squares[c] / n) : T{1};
}

void batch_norm(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                Tensor& y, Tensor& mean, Tensor& variance) {
  const Channels shape(x, "x");
  expect_channels(x, shape, {&gamma, &beta, &mean, &variance});
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    batch_statistics(shape, x.data<T>(), mean.data<T>(), variance.data<T>());
  });
  inference(stream, x, gamma, beta, mean, variance, epsilon, y);
}

void gradient(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& mean,
              const Tensor& variance, double epsilon, const Tensor& dy, Write write, Tensor& dx,
              Tensor& dgamma, Tensor& dbeta) {
  const Channels shape(x, "x");
  expect_channels(x, shape, {&gamma, &mean, &variance, &dgamma, &dbeta});
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> rstds = rstd_of(variance.data<T>(), shape.count, epsilon);
    const T *from = x.data<T>(), *g = gamma.data<T>(), *mu = mean.data<T>(), *rstd = rstds.data(),
            *d = dy.data<T>();
    const auto sum_d = channel_sums<T>(shape.outer, shape.count, shape.inner,
                                       [=](int64_t, int64_t, int64_t i) { return d[i]; });
    const auto sum_dx =
        channel_sums<T>(shape.outer, shape.count, shape.inner,
                        [=](int64_t, int64_t c, int64_t i) { return d[i] * ((from[i] - mu[c]) * rstd[c]); });
    store(sum_dx, write, dgamma.data<T>());
    store(sum_d, write, dbeta.data<T>());
    const double n = static_cast<double>(shape.outer * shape.inner);
    std::vector<T> mean_d(sum_d.size()), mean_dx(sum_d.size());
    for (size_t c = 0; c < sum_d.size(); ++c) {
      mean_d[c] = static_cast<T>(sum_d[c] / n);
      mean_dx[c] = static_cast<T>(sum_dx[c] / n);
    }
    const T *md = mean_d.data(), *mdx = mean_dx.data();
    map(stream, shape, dx.data<T>(), [=](int64_t c, int64_t i) {
      return g[c] * rstd[c] * (d[i] - md[c] - (from[i] - mu[c]) * rstd[c] * mdx[c]);
    });
  });
}

}  // namespace

BatchNormOps batch_norm_ops() {
  return {batch_norm, inference, gradient};
}

}  // namespace troupe::ops::cpu
