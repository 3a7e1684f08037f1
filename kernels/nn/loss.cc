#include <troupe/kernels/nn/loss.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::nn {
namespace {

// Labels of one sample.
int64_t positions(const Shape& labels) { return Shape(labels.span().subspan(1)).count(); }

}  // namespace

Tensor softmax_cross_entropy_sums(const Pass& pass, const Tensor& logits, const Tensor& labels, Tensor& dlogits) {
  const int64_t each = positions(labels.shape());
  const Tensor flat_labels = labels.reshaped({labels.count()});
  Tensor sums = pass.stream.empty({2}, DType::f64);
  Tensor rows = pass.stream.empty(as_rows(logits).shape(), logits.dtype());
  pass.ops.softmax_cross_entropy(pass.stream, as_rows(logits), flat_labels, rows, sums);
  if (pass.training) {
    pass.ops.softmax_cross_entropy_gradient(pass.stream, rows, flat_labels, rows);
    const double scale = pass.loss_scale / static_cast<double>(each);
    if (scale != 1) pass.ops.scale(pass.stream, scale, rows);
  }
  dlogits = rows.reshaped(logits.shape());
  return sums;
}

LossSums loss_sums(const Tensor& sums, const Shape& labels) {
  const double* values = sums.data<double>();
  const auto share = static_cast<double>(std::max<int64_t>(positions(labels), 1));
  return {values[0] / share, values[1] / share, labels[0]};
}

StepStats stats_of(const LossSums& sums) { return {sums.loss, std::llround(sums.correct), sums.samples}; }

StepStats softmax_cross_entropy(const Pass& pass, const Tensor& logits, const Tensor& labels, Tensor& dlogits) {
  const Tensor sums = softmax_cross_entropy_sums(pass, logits, labels, dlogits);
  if (sums.device().kind == DeviceKind::cpu) return stats_of(loss_sums(sums, labels.shape()));
  Tensor host = Tensor::empty(sums.shape(), sums.dtype());
  pass.stream.copy(sums, host);
  if (const Status status = pass.stream.wait(); !status) throw std::runtime_error(status.error().message);
  return stats_of(loss_sums(host, labels.shape()));
}

}  // namespace troupe::nn
