#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// Sums over the batch of the softmax cross-entropy of logits[n, classes] against labels (i32 [n]), and
/// in dlogits the gradient of that sum (in a pass that does not train: the probabilities).
StepStats softmax_cross_entropy(const Pass&, const Tensor& logits, const Tensor& labels, Tensor& dlogits);

}  // namespace troupe::nn
