#include <troupe/actors/measure.h>

#include <troupe/kernels/ops/ops.h>

namespace troupe {

std::pair<double, bool> measure(Stream& stream, const LayerSpec& layer, const Tensor& gradient, bool norm) {
  Tensor result = Tensor::empty({1}, DType::f64);
  ops::cpu_ops().count_non_finite(stream, gradient, result);
  const bool finite = result.data<double>()[0] == 0;
  double squares = 0;
  for (const ParamSpec& param : layer.params) {
    if (!norm || param.kind == ParamKind::statistic) continue;
    ops::cpu_ops().sum_of_squares(stream, gradient.view(param.offset, param.shape), result);
    squares += result.data<double>()[0];
  }
  return {squares, finite};
}

}  // namespace troupe
