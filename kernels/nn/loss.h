#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// Sums over the batch of the softmax cross-entropy of logits[n, classes] against labels (i32 [n]), and
/// in dlogits the gradient of that sum (in a pass that does not train: the probabilities). Waits for a stream that is
/// not on the CPU; what failed there is thrown.
StepStats softmax_cross_entropy(const Pass&, const Tensor& logits, const Tensor& labels, Tensor& dlogits);

/// The same without waiting: { loss, samples classified right } as f64 [2] of the stream's device, there once the
/// stream has come to it.
Tensor softmax_cross_entropy_sums(const Pass&, const Tensor& logits, const Tensor& labels, Tensor& dlogits);
/// What such sums, in host memory, say of `samples` samples.
StepStats stats_of(const Tensor& sums, int64_t samples);

}  // namespace troupe::nn
