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
///
/// 3 x 3 convolutions of many channels go by Winograd's algorithm where oneDNN has it. Batch 32, one thread, without
/// re-laying, forward, input gradient, weight gradient: 64 channels of 28 x 28 5.2, 5.2, 5.4 ms (directly 10.2, 11.6,
/// 11.3), 128 of 14 x 14 6.5, 6.4, 7.4 (9.8, 10.2, 10.1), 256 of 7 x 7 7.0, 7.0, 6.5 (9.5, 9.3, 11.7), 512 of 4 x 4
/// 13.4, 12.9, 14.4 (12.4, 11.3, 19.8). Results are then off by up to 1e-5 of their root mean square, 1e-6 directly.
void blocked_conv(Stream&, const Tensor& x, const Tensor& w, const float* bias, ConvGeometry, Tensor& y);
void blocked_conv_input_gradient(Stream&, const Tensor& dy, const Tensor& w, ConvGeometry, Tensor& dx);
void blocked_conv_weight_gradient(Stream&, const Tensor& x, const Tensor& dy, const Shape& w, ConvGeometry,
                                  float* dw, float* dbias);

}  // namespace troupe::ops::cpu
