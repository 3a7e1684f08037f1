#pragma once
#include <troupe/kernels/ops/conv.h>

namespace troupe::ops::cpu {

/// The three convolutions of ConvOps in f32 by oneDNN, in the channel-blocked layouts that it likes best;
/// plain tensors are re-laid on the way in and out. Primitives cost 0.2-4 ms to make and are kept by the
/// stream, a set for each combination of shapes. Callers have checked shapes; n > 0. Gradients overwrite;
/// `bias`, `dbias` may be null.
///
/// Batch 64, 32 x 14 x 14 -> 64 channels, 3 x 3, one thread of an AVX-512 Xeon: forward 3.0 ms, input
/// gradient 3.0 ms, weight gradient 3.0 ms, of which re-laying is 0.35 ms each; oneDNN on plain
/// layouts 6.5, 6.7, 6.0 ms; im2col + dnnl_sgemm 4.6, 5.3, 4.6 ms.
void blocked_conv(Stream&, const Tensor& x, const Tensor& w, const float* bias, ConvGeometry, Tensor& y);
void blocked_conv_input_gradient(Stream&, const Tensor& dy, const Tensor& w, ConvGeometry, Tensor& dx);
void blocked_conv_weight_gradient(Stream&, const Tensor& x, const Tensor& dy, const Shape& w, ConvGeometry,
                                  float* dw, float* dbias);

}  // namespace troupe::ops::cpu
