#include <troupe/kernels/nn/courier.h>

#include <chrono>
#include <new>
#include <stdexcept>

namespace troupe::nn {

Courier::Courier(std::shared_ptr<Backend> backend, Stream& compute, std::unique_ptr<Stream> copies,
                 const std::vector<LayerSpec>& layers)
    : backend_(std::move(backend)),
      compute_(compute),
      copies_(std::move(copies)),
      layers_(layers),
      sent_(layers.size()),
      weights_(layers.size()),
      left_(layers.size()) {
  TROUPE_CHECK(on_cpu() || copies_, "a device needs a stream for copies");
}

// Nobody is left to hear of a failure.
Courier::~Courier() {
  if (copies_) static_cast<void>(copies_->wait());
}

Tensor Courier::host(Shape shape, DType dtype) const { return empty_on_host(*backend_, shape, dtype); }

Tensor Courier::to_device(const Tensor& host) {
  if (on_cpu()) return host;
  Tensor device;
  try {
    device = compute_.empty(host.shape(), host.dtype());
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(cat("no memory for a batch of shape ", host.shape(), ": ", e.what()));
  }
  // The memory may be what a kernel submitted earlier still uses.
  backend_->order(compute_, *copies_);
  copies_->copy(host, device);
  backend_->order(*copies_, compute_);
  return device;
}

// What the pass before reads of the weights is read before they are written again.
void Courier::begin_pass() {
  parcels_.clear();
  if (!on_cpu()) backend_->order(compute_, *copies_);
}

std::span<const Tensor> Courier::weights(std::span<const Tensor> host, size_t first, size_t last) {
  if (on_cpu()) return host;
  bool sends = false;
  for (size_t layer = first; layer < last; ++layer) {
    const Tensor& now = host[layer];
    if (sent_[layer] && sent_[layer].buffer() == now.buffer() && sent_[layer].offset_bytes() == now.offset_bytes())
      continue;
    Tensor& device = weights_[layer];
    const bool came_so = stays(layer);
    sent_[layer] = now;
    if (stays(layer)) {
      device = now;
      continue;
    }
    try {
      if (!device || came_so || device.shape() != now.shape()) device = copies_->empty(now.shape(), now.dtype());
    } catch (const std::bad_alloc& e) {
      throw std::runtime_error(cat("no memory for the weights of layer ", layers_[layer].name, ": ", e.what()));
    }
    copies_->copy(now, device);
    sends = true;
  }
  if (sends) backend_->order(*copies_, compute_);
  return weights_;
}

Courier::Parcel Courier::send_back(const Tensor& device) {
  if (on_cpu()) return {0, device, {}, {}};
  backend_->order(compute_, *copies_);
  Tensor values = host(device.shape(), device.dtype());
  copies_->copy(device, values);  // which holds both until it has run
  return follow(*copies_, std::move(values));
}

void Courier::measure(bool norm) {
  if (!on_cpu()) norm_ = norm;
}

// A few bytes: they cost the copy stream no time, and the compute stream waits for nothing.
Tensor Courier::measure_on_device(size_t layer, const Tensor& gradient) {
  Tensor numbers;
  try {
    numbers = submit_measure(compute_, backend_->ops(), gradient, ranges(layer, gradient.count()));
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(
        cat("no memory for measuring the gradient of layer ", layers_[layer].name, ": ", e.what()));
  }
  backend_->order(compute_, *copies_);
  Tensor in_host_memory = host(numbers.shape(), numbers.dtype());
  copies_->copy(numbers, in_host_memory);
  return in_host_memory;
}

// `values` are there when the stream has come here.
Courier::Parcel Courier::follow(Stream& stream, Tensor values) const {
  Parcel parcel{0, std::move(values), {}, {}};
  const auto promise = std::make_shared<std::promise<Status>>();
  parcel.arrival = promise->get_future();
  stream.then([promise](Status status) { promise->set_value(std::move(status)); });
  return parcel;
}

Tensor Courier::receive(Parcel parcel) {
  if (parcel.arrival.valid())
    if (const Status status = parcel.arrival.get(); !status) throw std::runtime_error(status.error().message);
  return std::move(parcel.values);
}

void Courier::leave_on_device(std::span<const size_t> layers) {
  left_.assign(left_.size(), false);
  for (const size_t layer : layers) left_[layer] = true;
}

void Courier::give(size_t layer, Tensor gradient, const GradientSource::GradientReady& ready) {
  if (on_cpu()) return ready(layer, std::move(gradient));
  Tensor numbers = norm_ ? measure_on_device(layer, gradient) : Tensor();
  if (!leaves(layer)) {
    parcels_.push_back(send_back(gradient));
  } else {
    // A callback holds up what comes behind it: that is not to be the next layer's kernels.
    if (!numbers) backend_->order(compute_, *copies_);
    parcels_.push_back(follow(*copies_, std::move(gradient)));
  }
  parcels_.back().layer = layer;
  parcels_.back().numbers = std::move(numbers);
  while (!parcels_.empty() && parcels_.front().arrival.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    hand_over(ready);
}

void Courier::deliver(const GradientSource::GradientReady& ready) {
  while (!parcels_.empty()) hand_over(ready);
  for (size_t layer = 0; layer < sent_.size(); ++layer)
    if (stays(layer)) return static_cast<void>(receive(follow(compute_, {})));
}

void Courier::hand_over(const GradientSource::GradientReady& ready) {
  Parcel parcel = std::move(parcels_.front());
  parcels_.pop_front();
  const size_t layer = parcel.layer;
  const Tensor numbers = std::move(parcel.numbers);
  Tensor gradient = receive(std::move(parcel));
  if (numbers) measured_ = measure_of(numbers, ranges(layer, gradient.count()));
  ready(layer, std::move(gradient));
  measured_.reset();
}

}  // namespace troupe::nn
