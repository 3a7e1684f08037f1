#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/reduce.cuh>

namespace troupe::ops::cuda {
namespace {

struct Identity {
  template <class T>
  __device__ double operator()(T v) const {
    return static_cast<double>(v);
  }
};

struct Square {
  template <class T>
  __device__ double operator()(T v) const {
    return static_cast<double>(v) * static_cast<double>(v);
  }
};

struct NonFinite {
  template <class T>
  __device__ double operator()(T v) const {
    return v - v == T{0} ? 0 : 1;  // of NaN and infinity the difference is NaN
  }
};

template <class F>
void reduce_to(Stream& stream, F f, const Tensor& x, Tensor& result) {
  expect(x, x.dtype(), x.shape(), "x");
  expect(result, DType::f64, {1}, "result");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Partial = Sums<double, 1>;
    auto* partial = reinterpret_cast<Partial*>(stream.scratch(reduce_blocks<T>(x.count()) * sizeof(Partial)));
    reduce(stream, x.count(), f, x.data<T>(), partial, result.data<double>());
  });
}

void sum(Stream& stream, const Tensor& x, Tensor& total) { reduce_to(stream, Identity{}, x, total); }
void sum_of_squares(Stream& stream, const Tensor& x, Tensor& total) { reduce_to(stream, Square{}, x, total); }
void count_non_finite(Stream& stream, const Tensor& x, Tensor& count) { reduce_to(stream, NonFinite{}, x, count); }

}  // namespace

ReduceOps reduce_ops() { return {sum, sum_of_squares, count_non_finite}; }

}  // namespace troupe::ops::cuda
