#pragma once
#include <cstdint>

#include <troupe/kernels/ops/write.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

enum class Trans : uint8_t { no, yes };

/// Matrix products: 2 m n k operations.
struct GemmOps {
  /// c[m, n] = op(a)[m, k] op(b)[k, n] + beta c, where op transposes the stored matrix or not: with
  /// Trans::yes `a` is stored as [k, m]. beta = 0 does not read c; k = 0 leaves beta c.
  void (*gemm)(Stream&, Trans trans_a, Trans trans_b, const Tensor& a, const Tensor& b, double beta,
               Tensor& c);

  /// y[m, n] = epilogue(x[m, k] w[n, k]^T + bias[n]): the forward pass of a fully connected layer, whose
  /// weights are [outputs, inputs]. `bias` or none.
  /// Its gradients: dx = gemm(no, no, dy, w), dw = gemm(yes, no, dy, x), db = bias_gradient(dy).
  void (*linear)(Stream&, const Tensor& x, const Tensor& w, const Tensor& bias, Epilogue, Tensor& y);
};

}  // namespace troupe::ops
