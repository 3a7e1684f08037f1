#include <troupe/kernels/nn/loss.h>

#include <algorithm>
#include <cmath>

namespace troupe::nn {

StepStats softmax_cross_entropy(const Pass& pass, const Tensor& logits, const Tensor& labels,
                                Tensor& dlogits) {
  const int64_t samples = labels.shape()[0];
  const int64_t positions = Shape(labels.shape().span().subspan(1)).count();
  const Tensor flat_labels = labels.reshaped({labels.count()});
  Tensor totals = Tensor::empty({2}, DType::f64);
  Tensor rows = Tensor::empty(as_rows(logits).shape(), logits.dtype());
  pass.ops.softmax_cross_entropy(pass.stream, as_rows(logits), flat_labels, rows, totals);
  if (pass.training) {
    pass.ops.softmax_cross_entropy_gradient(pass.stream, rows, flat_labels, rows);
    if (positions > 1) pass.ops.scale(pass.stream, 1 / static_cast<double>(positions), rows);
  }
  dlogits = rows.reshaped(logits.shape());
  const double* sums = totals.data<double>();
  const auto share = static_cast<double>(std::max<int64_t>(positions, 1));
  return {sums[0] / share, std::llround(sums[1] / share), samples};
}

}  // namespace troupe::nn
