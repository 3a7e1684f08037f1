#pragma once
#include <cstdint>

#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

struct DropoutOps {
  /// y[i] = keep(i) ? x[i] / (1 - p) : 0, for 0 <= p < 1 and any shape. y may be x. Applied to dy with the
  /// same p, seed and first it is its own gradient, so no mask is stored.
  ///
  /// keep(i) depends on (seed, first + i) alone: word (j mod 4) of Philox4x32-10 (kernels/base/random.h) with
  /// counter {j / 4, low and high word; 0; 0} and the seed as key, j = first + i, is >= floor(p 2^32). So the
  /// numbers are the same on every device and thread count, and `first` (>= 0) lets a part of a tensor draw
  /// what the whole would.
  void (*dropout)(Stream&, const Tensor& x, double p, uint64_t seed, int64_t first, Tensor& y);
};

}  // namespace troupe::ops
