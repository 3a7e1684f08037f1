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
  const std::vector<MeasuredRange> ranges = ranges_to_measure(layer, gradient.count(), norm);
  const Tensor numbers = in_host_memory(stream, submit_measure(stream, ops, gradient, ranges));
  const auto [squares, finite] = measure_of(numbers, ranges);
  return {squares, finite};
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
