#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/channel_reduce.cuh>
#include <troupe/kernels/ops/cuda/layer_norm.cuh>
#include <troupe/kernels/ops/cuda/written.cuh>

namespace troupe::ops::cuda {
namespace {

template <class T>
struct WriteGammaAndBeta {
  Written<T> gamma, beta;
  __device__ void operator()(int64_t c, const Sums<T, 2>& sums) const {
    gamma.put(c, sums.at[0]);
    beta.put(c, sums.at[1]);
  }
};

void expect_rows(const Tensor& x, const Tensor& mean, const Tensor& rstd) {
  expect_dims(x, 2, 2, "x");
  expect(x, x.dtype(), x.shape(), "x");
  TROUPE_CHECK(x.shape()[1] > 0, "x is ", x.shape(), ": rows of nothing have no mean");
  expect(mean, x.dtype(), {x.shape()[0]}, "mean");
  expect(rstd, x.dtype(), {x.shape()[0]}, "rstd");
}

void layer_norm(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, Tensor& y,
                Tensor& mean, Tensor& rstd) {
  expect_rows(x, mean, rstd);
  const int64_t m = x.shape()[0], n = x.shape()[1];
  expect(gamma, x.dtype(), {n}, "gamma");
  expect(beta, x.dtype(), {n}, "beta");
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *g = gamma.data<T>(), *b = beta.data<T>();
    T* to = y.data<T>();
    const auto launch = [&](auto width, auto team, unsigned blocks) {
      TROUPE_LAUNCH((layer_norm_rows<T, decltype(width)::value, decltype(team)::value>), blocks, kBlockThreads, 0,
                    stream, m, n, from, g, b, static_cast<T>(epsilon), to, mean.data<T>(), rstd.data<T>());
    };
    over_rows(m, n, launch, from, g, b, to);
  });
}

void input_gradient(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                    const Tensor& dy, Tensor& dx) {
  expect_rows(x, mean, rstd);
  const int64_t m = x.shape()[0], n = x.shape()[1];
  expect(gamma, x.dtype(), {n}, "gamma");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *g = gamma.data<T>(), *d = dy.data<T>();
    T* to = dx.data<T>();
    const auto launch = [&](auto width, auto team, unsigned blocks) {
      TROUPE_LAUNCH((layer_norm_gradient_rows<T, decltype(width)::value, decltype(team)::value>), blocks, kBlockThreads,
                    0, stream, m, n, from, g, mean.data<T>(), rstd.data<T>(), d, to);
    };
    over_rows(m, n, launch, from, g, d, to);
  });
}

void weight_gradient(Stream& stream, const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                     Write write, Tensor& dgamma, Tensor& dbeta) {
  expect_rows(x, mean, rstd);
  const Channels shape(x, "x");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dgamma, x.dtype(), {shape.count}, "dgamma");
  expect(dbeta, x.dtype(), {shape.count}, "dbeta");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto* partial = reinterpret_cast<Sums<T, 2>*>(stream.scratch(partial_bytes<Sums<T, 2>>(shape)));
    reduce_channels(stream, shape, LayerNormWeightTerms<T>{x.data<T>(), mean.data<T>(), rstd.data<T>(), dy.data<T>()},
                    WriteGammaAndBeta<T>{{dgamma.data<T>(), write}, {dbeta.data<T>(), write}}, partial);
  });
}

}  // namespace

LayerNormOps layer_norm_ops() { return {layer_norm, input_gradient, weight_gradient}; }

}  // namespace troupe::ops::cuda
