#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/channel_map.cuh>
#include <troupe/kernels/ops/cuda/channel_reduce.cuh>
#include <troupe/kernels/ops/cuda/gelu.cuh>
#include <troupe/kernels/ops/cuda/written.cuh>

namespace troupe::ops::cuda {
namespace {

struct Unchanged {
  template <class T>
  __device__ static T value(T x) {
    return x;
  }
};

struct Relu {
  template <class T>
  __device__ static T value(T x) {
    return x < T{0} ? T{0} : x;
  }
};

template <class T, class Function>
struct AddBias {
  const T* bias;
  __device__ T operator()(int64_t c, int64_t, T x) const { return Function::value(x + bias[c]); }
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
    const auto run = [&](auto function) {
      map_channels(stream, shape, AddBias<T, decltype(function)>{bias.data<T>()}, y.data<T>(), x.data<T>());
    };
    switch (epilogue) {
      case Epilogue::none: return run(Unchanged{});
      case Epilogue::relu: return run(Relu{});
      case Epilogue::gelu: return run(Gelu{});
      case Epilogue::gelu_tanh: return run(GeluTanh{});
    }
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

template <class Form, int kWidth, class T>
void gelu_back(Stream& stream, const Channels& shape, const T* x, const T* bias, const T* dy, T* dx, WriteSum<T> sums) {
  const Slabs slabs(shape, kTileColumns * kWidth);
  auto* partial = reinterpret_cast<Sums<T, 1>*>(
      stream.scratch(static_cast<size_t>(slabs.count * shape.count) * sizeof(Sums<T, 1>)));
  const dim3 grid(blocks_for(shape.count, kTileColumns * kWidth), static_cast<unsigned>(slabs.count));
  TROUPE_LAUNCH((bias_gelu_gradient_columns<Form, kWidth, T>), grid, kBlockThreads, 0, stream, shape.outer, shape.count,
                slabs.elements, x, bias, dy, dx, partial);
  merge_channels(stream, shape, slabs, partial, sums);
}

void bias_gelu_gradient(Stream& stream, const Tensor& x, const Tensor& bias, Epilogue gelu, const Tensor& dy,
                        Write write, Tensor& dx, Tensor& dbias) {
  expect_dims(x, 2, 2, "x");
  const Channels shape(x, "x");
  expect(x, x.dtype(), x.shape(), "x");
  expect(bias, x.dtype(), {shape.count}, "bias");
  expect(dy, x.dtype(), x.shape(), "dy");
  expect(dx, x.dtype(), x.shape(), "dx");
  expect(dbias, x.dtype(), {shape.count}, "dbias");
  TROUPE_CHECK(gelu == Epilogue::gelu || gelu == Epilogue::gelu_tanh, "epilogue ", static_cast<int>(gelu),
               " is no gelu");
  if (shape.count == 0) return;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWide = kWidest<T>;
    const T *in = x.data<T>(), *add = bias.data<T>(), *d = dy.data<T>();
    T* to = dx.data<T>();
    const WriteSum<T> sums{{dbias.data<T>(), write}};
    const bool wide = shape.count % kWide == 0 && aligned(kWide, in, add, d, to);
    const auto run = [&](auto form) {
      using Form = decltype(form);
      if (wide)
        gelu_back<Form, kWide>(stream, shape, in, add, d, to, sums);
      else
        gelu_back<Form, 1>(stream, shape, in, add, d, to, sums);
    };
    if (gelu == Epilogue::gelu)
      run(Gelu{});
    else
      run(GeluTanh{});
  });
}

}  // namespace

BiasOps bias_ops() { return {bias_add, bias_gradient, bias_gelu_gradient}; }

}  // namespace troupe::ops::cuda
