#pragma once
#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// One number a channel. Dimension 1 is the channel, whatever follows it: x is [n, c], [n, c, h, w], ...
struct BiasOps {
  /// y = epilogue(x + bias[c]); y may be x.
  void (*bias_add)(Stream&, const Tensor& x, const Tensor& bias, Epilogue, Tensor& y);

  /// dbias[c] (=, +=) the sum of dy over all other dimensions.
  void (*bias_gradient)(Stream&, const Tensor& dy, Write, Tensor& dbias);

  /// Behind y[m, n] = gelu(x + bias[n]), where `gelu` is Epilogue::gelu or gelu_tanh: dx = dy gelu'(x + bias), and
  /// dbias[n] (=, +=) the sum of dx over the rows, in one pass: two tensors read, one written. dx may be dy.
  void (*bias_gelu_gradient)(Stream&, const Tensor& x, const Tensor& bias, Epilogue gelu, const Tensor& dy, Write,
                             Tensor& dx, Tensor& dbias);
};

}  // namespace troupe::ops
