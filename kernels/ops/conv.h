#pragma once
#include <cstdint>

#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Step and zero padding, the same in both directions.
struct ConvGeometry {
  int64_t stride = 1;
  int64_t padding = 0;
  bool operator==(const ConvGeometry&) const = default;
};

/// [n, o, (h + 2 padding - kh) / stride + 1, (w + 2 padding - kw) / stride + 1] for x [n, c, h, w] and
/// weights [o, c, kh, kw]; fails a check when the kernel is larger than the padded image.
Shape conv_output(const Shape& x, const Shape& weight, ConvGeometry);

/// Two-dimensional convolution (cross-correlation, as everywhere in this field), images [n, c, h, w]:
///   y[n, o, i, j] = bias[o] + sum over c, p, q of
///                   x[n, c, i stride + p - padding, j stride + q - padding] w[o, c, p, q],  x = 0 outside.
/// Each of the three functions takes 2 n o c kh kw oh ow operations.
struct ConvOps {
  /// y = epilogue(x * w + bias); `bias` or none.
  void (*conv)(Stream&, const Tensor& x, const Tensor& w, const Tensor& bias, ConvGeometry, Epilogue,
               Tensor& y);

  /// dx[n, c, h, w] = d loss / d x.
  void (*conv_input_gradient)(Stream&, const Tensor& dy, const Tensor& w, ConvGeometry, Tensor& dx);

  /// dw[o, c, kh, kw] (=, +=) d loss / d w and dbias[o] (=, +=) the sum of dy; `dbias` or none.
  void (*conv_weight_gradient)(Stream&, const Tensor& x, const Tensor& dy, ConvGeometry, Write, Tensor& dw,
                               Tensor& dbias);
};

}  // namespace troupe::ops
