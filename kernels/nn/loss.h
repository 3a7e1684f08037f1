#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// Sums over the batch of the softmax cross-entropy of logits[n, ..., classes] against labels (i32 [n, ...]), and in
/// dlogits the gradient of that sum times `Pass::loss_scale` (in a pass that does not train: the probabilities). Waits
/// for a stream that is not on the CPU; what failed there is thrown.
///
/// Where a sample has several labels, as a sequence has one a position, its loss is their mean: the mean over samples
/// of equal length is the mean over all positions. It counts as right by the share of its labels that are; a batch's
/// sum is rounded to whole samples.
StepStats softmax_cross_entropy(const Pass&, const Tensor& logits, const Tensor& labels, Tensor& dlogits);

/// The same without waiting: { loss, labels found } over all positions as f64 [2] of the stream's device, there once
/// the stream has come to it.
Tensor softmax_cross_entropy_sums(const Pass&, const Tensor& logits, const Tensor& labels, Tensor& dlogits);
/// What such sums, in host memory, say of a batch whose labels have this shape: sums over its samples.
struct LossSums {
  double loss = 0, correct = 0;
  int64_t samples = 0;
  void operator+=(const LossSums& more) { loss += more.loss, correct += more.correct, samples += more.samples; }
};
LossSums loss_sums(const Tensor& sums, const Shape& labels);
StepStats stats_of(const LossSums& sums);

}  // namespace troupe::nn
