#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// Sums over the batch of the softmax cross-entropy of logits[n, ..., classes] against labels (i32 [n, ...]), and in
/// dlogits the gradient of that sum (in a pass that does not train: the probabilities).
///
/// Where a sample has several labels, as a sequence has one a position, its loss is their mean: the mean over samples
/// of equal length is the mean over all positions. It counts as right by the share of its labels that are; a batch's
/// sum is rounded to whole samples.
StepStats softmax_cross_entropy(const Pass&, const Tensor& logits, const Tensor& labels, Tensor& dlogits);

}  // namespace troupe::nn
