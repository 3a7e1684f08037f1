#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Causal self-attention (Vaswani et al. 2017) of n sequences of t positions, each head by itself:
///   s[i, j] = scale q[i] . k[j],   p[i, j] = exp(s[i, j]) / sum over j' <= i of exp(s[i, j']),
///   y[i] = sum over j <= i of p[i, j] v[j].
/// Scores are made block by block of queries and keys and never kept (Dao et al. 2022, "FlashAttention"; Rabe and
/// Staats 2021): besides its tensors an op takes memory that does not grow with t. A sequence's length is the tensor's,
/// so calls of one model may differ in it.
///
/// qkv is packed as [n, t, 3, heads, d]: the row that one linear layer of 3 heads d outputs writes for a position,
/// query, key and value in turn. Positions are not mixed in here: see rotary.h.
struct AttentionOps {
  /// Writes y[n, t, heads, d], and log_sums[n, heads, t] = log of the sum over j <= i of exp(s[i, j]), which is all
  /// that the gradient needs to make p again. Takes about 2 n heads t^2 d operations (the half that is masked is
  /// skipped block by block).
  void (*attention)(Stream&, const Tensor& qkv, double scale, Tensor& y, Tensor& log_sums);

  /// dqkv[n, t, 3, heads, d] from dy[n, t, heads, d] and what `attention` wrote. With D[i] = dy[i] . y[i]:
  ///   dv[j] = sum over i >= j of p[i, j] dy[i],     ds[i, j] = p[i, j] (dy[i] . v[j] - D[i]),
  ///   dq[i] = scale sum over j <= i of ds[i, j] k[j],   dk[j] = scale sum over i >= j of ds[i, j] q[i].
  /// About 5 n heads t^2 d operations. dqkv must not be qkv.
  void (*attention_gradient)(Stream&, const Tensor& qkv, double scale, const Tensor& y, const Tensor& log_sums,
                             const Tensor& dy, Tensor& dqkv);
};

}  // namespace troupe::ops
