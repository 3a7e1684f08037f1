#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/batch_norm.cuh>
#include <troupe/kernels/ops/cuda/channel_map.cuh>
#include <troupe/kernels/ops/cuda/channel_reduce.cuh>

namespace troupe::ops::cuda {
namespace {

void expect_channels(const Tensor& x, const Channels& shape, std::initializer_list<const Tensor*> per_channel) {
  expect(x, x.dtype(), x.shape(), "x");
  for (const Tensor* t : per_channel) expect(*t, x.dtype(), {shape.count}, "gamma, beta, mean, variance or a gradient");
}

// A struct for each channel, and behind them the partial results of a reduction.
template <class PerChannel, class A>
struct Work {
  PerChannel* channels;
  A* partial;

  Work(Stream& stream, const Channels& shape) {
    const size_t bytes = static_cast<size_t>(shape.count) * sizeof(PerChannel);
    std::byte* scratch = stream.scratch(bytes + partial_bytes<A>(shape));
    channels = reinterpret_cast<PerChannel*>(scratch);
    partial = reinterpret_cast<A*>(scratch + bytes);
  }
};

void batch_norm(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, Tensor& y,
                Tensor& mean, Tensor& variance) {
  const Channels shape(x, "x");
  expect_channels(x, shape, {&gamma, &beta, &mean, &variance});
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Work<Normal<T>, Moments<T>> work(stream, shape);
    const WriteStatistics<T> write{gamma.data<T>(), beta.data<T>(),     static_cast<T>(epsilon),
                                   mean.data<T>(),  variance.data<T>(), work.channels};
    reduce_channels(stream, shape, MomentTerms<T>{x.data<T>()}, write, work.partial);
    map_channels(stream, shape, Normalise<T>{work.channels}, y.data<T>(), x.data<T>());
  });
}

void inference(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
               const Tensor& variance, double epsilon, Tensor& y) {
  const Channels shape(x, "x");
  expect_channels(x, shape, {&gamma, &beta, &mean, &variance});
  expect(y, x.dtype(), x.shape(), "y");
  if (x.count() == 0) return;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto* normal = reinterpret_cast<Normal<T>*>(stream.scratch(static_cast<size_t>(shape.count) * sizeof(Normal<T>)));
    TROUPE_LAUNCH(normals_of<T>, blocks_for(shape.count), kBlockThreads, 0, stream, shape.count, gamma.data<T>(),
                  beta.data<T>(), mean.data<T>(), variance.data<T>(), static_cast<T>(epsilon), normal);
    map_channels(stream, shape, Normalise<T>{normal}, y.data<T>(), x.data<T>());
  });
}

void gradient(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& variance,
              double epsilon, const Tensor& dy, Write write, Tensor& dx, Tensor& dgamma, Tensor& dbeta) {
  const Channels shape(x, "x");
  expect_channels(x, shape, {&gamma, &mean, &variance, &dgamma, &dbeta});
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Work<Pull<T>, Sums<T, 2>> work(stream, shape);
    const T eps = static_cast<T>(epsilon), elements = static_cast<T>(shape.outer * shape.inner);
    const WriteBatchNormGradients<T> finish{
        gamma.data<T>(),           mean.data<T>(),           variance.data<T>(), eps, elements,
        {dgamma.data<T>(), write}, {dbeta.data<T>(), write}, work.channels};
    reduce_channels(stream, shape, BatchNormGradientTerms<T>{x.data<T>(), mean.data<T>(), dy.data<T>()}, finish,
                    work.partial);
    map_channels(stream, shape, BatchNormInputGradient<T>{work.channels}, dx.data<T>(), dy.data<T>(), x.data<T>());
  });
}

}  // namespace

BatchNormOps batch_norm_ops() { return {batch_norm, inference, gradient}; }

}  // namespace troupe::ops::cuda
