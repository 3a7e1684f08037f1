#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Numbers that describe a whole tensor x of any shape, written as f64 [1]. One pass at the speed of memory.
/// Sums are kept in double precision in a fixed number of interleaved parts: the bits depend on the count of
/// elements alone, not on where the tensor lies. Of no elements: 0.
struct ReduceOps {
  void (*sum)(Stream&, const Tensor& x, Tensor& total);

  /// Of f32 elements it is finite exactly when all of them are (a double holds the square of any float), so a
  /// norm for clipping is a check for NaN at no further cost.
  void (*sum_of_squares)(Stream&, const Tensor& x, Tensor& total);

  /// How many elements are NaN or infinite.
  void (*count_non_finite)(Stream&, const Tensor& x, Tensor& count);
};

}  // namespace troupe::ops
