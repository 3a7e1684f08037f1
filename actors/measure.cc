#include <troupe/actors/measure.h>

#include <new>
#include <stdexcept>

namespace troupe {
namespace {

Tensor in_host_memory(Stream& stream, const Tensor& numbers) {
  if (numbers.device().kind == DeviceKind::cpu) return numbers;
  Tensor host = Tensor::empty(numbers.shape(), numbers.dtype());
  stream.copy(numbers, host);
  if (const Status status = stream.wait(); !status) throw std::runtime_error(status.error().message);
  return host;
}

}  // namespace

std::pair<double, bool> measure(Stream& stream, const ops::Ops& ops, const LayerSpec& layer, const Tensor& gradient,
                                bool norm) {
  const auto params = static_cast<int64_t>(norm ? layer.params.size() : 0);
  Tensor results = stream.empty({1 + params}, DType::f64);
  Tensor count = results.view(params, {1});
  ops.count_non_finite(stream, gradient, count);
  for (int64_t i = 0; i < params; ++i) {
    const ParamSpec& param = layer.params[static_cast<size_t>(i)];
    if (param.kind == ParamKind::statistic) continue;
    Tensor squares = results.view(i, {1});
    const Tensor part = layer.row_width > 0 ? gradient : gradient.view(param.offset, param.shape);  // perhaps some rows
    ops.sum_of_squares(stream, part, squares);
  }
  const Tensor numbers = in_host_memory(stream, results);
  double squares = 0;
  for (int64_t i = 0; i < params; ++i)
    if (layer.params[static_cast<size_t>(i)].kind != ParamKind::statistic) squares += numbers.data<double>()[i];
  return {squares, numbers.data<double>()[params] == 0};
}

std::pair<double, bool> DeviceMeter::measure(size_t layer, const Tensor& gradient) {
  if (!stream_) {
    StreamOptions options;
    options.device = device_;
    auto made = backend_->make_stream(options);
    if (!made) throw std::runtime_error(made.error().message);
    stream_ = std::move(*made);
  }
  try {
    return troupe::measure(*stream_, backend_->ops(), layers_[layer], gradient, norm_);
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(
        cat("no memory for measuring the gradient of layer ", layers_[layer].name, ": ", e.what()));
  }
}

}  // namespace troupe
