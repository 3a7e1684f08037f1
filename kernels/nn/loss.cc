#include <troupe/kernels/nn/loss.h>

#include <stdexcept>

namespace troupe::nn {

Tensor softmax_cross_entropy_sums(const Pass& pass, const Tensor& logits, const Tensor& labels, Tensor& dlogits) {
  Tensor sums = pass.stream.empty({2}, DType::f64);
  dlogits = pass.stream.empty(logits.shape(), logits.dtype());
  pass.ops.softmax_cross_entropy(pass.stream, logits, labels, dlogits, sums);
  if (pass.training) pass.ops.softmax_cross_entropy_gradient(pass.stream, dlogits, labels, dlogits);
  return sums;
}

StepStats stats_of(const Tensor& sums, int64_t samples) {
  const double* values = sums.data<double>();
  return {values[0], static_cast<int64_t>(values[1]), samples};
}

StepStats softmax_cross_entropy(const Pass& pass, const Tensor& logits, const Tensor& labels, Tensor& dlogits) {
  const Tensor sums = softmax_cross_entropy_sums(pass, logits, labels, dlogits);
  if (sums.device().kind == DeviceKind::cpu) return stats_of(sums, labels.count());
  Tensor host = Tensor::empty(sums.shape(), sums.dtype());
  pass.stream.copy(sums, host);
  if (const Status status = pass.stream.wait(); !status) throw std::runtime_error(status.error().message);
  return stats_of(host, labels.count());
}

}  // namespace troupe::nn
