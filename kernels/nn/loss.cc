#include <troupe/kernels/nn/loss.h>

namespace troupe::nn {

StepStats softmax_cross_entropy(const Pass& pass, const Tensor& logits, const Tensor& labels,
                                Tensor& dlogits) {
  Tensor totals = Tensor::empty({2}, DType::f64);
  dlogits = Tensor::empty(logits.shape(), logits.dtype());
  pass.ops.softmax_cross_entropy(pass.stream, logits, labels, dlogits, totals);
  if (pass.training) pass.ops.softmax_cross_entropy_gradient(pass.stream, dlogits, labels, dlogits);
  const double* sums = totals.data<double>();
  return {sums[0], static_cast<int64_t>(sums[1]), labels.count()};
}

}  // namespace troupe::nn
