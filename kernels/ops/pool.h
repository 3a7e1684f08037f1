#pragma once
#include <cstdint>

#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// A square window, moved by `stride`, over an image with `padding` pixels around it. window <= 15 and
/// padding < window, so that a window always holds a pixel of the image.
struct PoolGeometry {
  int64_t window = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  bool operator==(const PoolGeometry&) const = default;
};

/// [n, c, (h + 2 padding - window) / stride + 1, ...]: pixels that fill no whole window are left out.
Shape pool_output(const Shape& x, PoolGeometry);

/// Images [n, c, h, w] -> [n, c, oh, ow].
struct PoolOps {
  /// y = the largest pixel of each window (padding never wins; NaN does). choice (u8, shape of y) = where it
  /// lies in its window, row x window + column; the first of equals.
  void (*max_pool)(Stream&, const Tensor& x, PoolGeometry, Tensor& y, Tensor& choice);

  /// dx = dy sent to the chosen pixels, 0 elsewhere; overlapping windows add.
  void (*max_pool_gradient)(Stream&, const Tensor& dy, const Tensor& choice, PoolGeometry, Tensor& dx);

  /// y = the sum of each window / window^2: padding counts as zeros.
  void (*avg_pool)(Stream&, const Tensor& x, PoolGeometry, Tensor& y);
  void (*avg_pool_gradient)(Stream&, const Tensor& dy, PoolGeometry, Tensor& dx);

  /// y[n, c] = the mean of all pixels of x[n, c, h, w], and back.
  void (*global_avg_pool)(Stream&, const Tensor& x, Tensor& y);
  void (*global_avg_pool_gradient)(Stream&, const Tensor& dy, Tensor& dx);
};

}  // namespace troupe::ops
