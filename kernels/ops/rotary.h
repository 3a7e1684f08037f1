#pragma once
#include <cstdint>

#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Rotary positions (Su et al. 2021, "RoFormer"): queries and keys are turned by angles that grow with their position,
/// so that q[i] . k[j] depends on i - j. In a head of even width d, element c is paired with c + d/2 (as Llama and
/// GPT-NeoX do; RoFormer pairs neighbours):
///   angle(i, c) = i base^(-2 c / d),  c < d/2,
///   y[c] = x[c] cos - x[c + d/2] sin,   y[c + d/2] = x[c + d/2] cos + x[c] sin.
/// Angles are worked out in double precision.
struct RotaryOps {
  /// qkv[n, t, 3, heads, d] as attention.h packs it: queries and keys are turned in place, values left alone. The
  /// position of qkv[:, i] is i.
  void (*rotary)(Stream&, double base, Tensor& qkv);

  /// The gradient: the same by negative angles, dqkv in place.
  void (*rotary_gradient)(Stream&, double base, Tensor& dqkv);
};

}  // namespace troupe::ops
