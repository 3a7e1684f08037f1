#pragma once
#include <troupe/kernels/tensor/stream.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ops {

/// Classification loss on logits [n, classes] and labels i32 [n] in [0, classes); another label is a bug.
struct SoftmaxOps {
  /// probabilities[n, classes] = softmax of each row, computed from its largest logit down, so that no size
  /// of logit overflows; `probabilities` may be `logits`. totals (f64 [2]) = { sum over samples of -log
  /// probability of the label, samples whose largest logit (the first of equals) is the label's }. A NaN
  /// logit makes the loss NaN and the sample wrong.
  void (*softmax_cross_entropy)(Stream&, const Tensor& logits, const Tensor& labels, Tensor& probabilities,
                                Tensor& totals);

  /// dlogits = probabilities - onehot(label): the gradient of the *sum* of losses. May be `probabilities`.
  void (*softmax_cross_entropy_gradient)(Stream&, const Tensor& probabilities, const Tensor& labels,
                                         Tensor& dlogits);
};

}  // namespace troupe::ops
