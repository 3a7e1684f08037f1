#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/channel_map.cuh>
#include <troupe/kernels/ops/cuda/channel_reduce.cuh>
#include <troupe/kernels/ops/cuda/written.cuh>

namespace troupe::ops::cuda {
namespace {

template <class T, bool kRelu>
struct AddBias {
  const T* bias;
  __device__ T operator()(int64_t c, int64_t, T x) const {
    const T y = x + bias[c];
    return kRelu && y < T{0} ? T{0} : y;
  }
};

template <class T>
struct Elements {
  const T* dy;
  __device__ void see(Sums<T, 1>& sums, int64_t, int64_t, int64_t i) const { sums.at[0] += dy[i]; }
};

template <class T>
struct WriteSum {
  Written<T> to;
  __device__ void operator()(int64_t c, const Sums<T, 1>& sums) const { to.put(c, sums.at[0]); }
};

void bias_add(Stream& stream, const Tensor& x, const Tensor& bias, Epilogue epilogue, Tensor& y) {
  const Channels shape(x, "x");
  expect(x, x.dtype(), x.shape(), "x");
  expect(bias, x.dtype(), {shape.count}, "bias");
  expect(y, x.dtype(), x.shape(), "y");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (epilogue == Epilogue::relu)
      map_channels(stream, shape, AddBias<T, true>{bias.data<T>()}, y.data<T>(), x.data<T>());
    else
      map_channels(stream, shape, AddBias<T, false>{bias.data<T>()}, y.data<T>(), x.data<T>());
  });
}

void bias_gradient(Stream& stream, const Tensor& dy, Write write, Tensor& dbias) {
  const Channels shape(dy, "dy");
  expect(dy, dy.dtype(), dy.shape(), "dy");
  expect(dbias, dy.dtype(), {shape.count}, "dbias");
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto* partial = reinterpret_cast<Sums<T, 1>*>(stream.scratch(partial_bytes<Sums<T, 1>>(shape)));
    reduce_channels(stream, shape, Elements<T>{dy.data<T>()}, WriteSum<T>{{dbias.data<T>(), write}}, partial);
  });
}

}  // namespace

BiasOps bias_ops() { return {bias_add, bias_gradient}; }

}  // namespace troupe::ops::cuda
