#include <troupe/ps/param/shard_device.h>

#include <new>
#include <stdexcept>

namespace troupe::ps {

ShardDevice::ShardDevice(std::string owner, std::shared_ptr<Backend> backend, OptimizerOptions optimizer)
    : owner_(std::move(owner)),
      backend_(std::move(backend)),
      optimizer_(std::move(optimizer), *backend_->update_ops()) {}

Result<std::shared_ptr<ShardDevice>> ShardDevice::make(std::string owner, std::shared_ptr<Backend> backend, int index,
                                                       OptimizerOptions optimizer) {
  if (!backend->update_ops())
    return fail(ErrorKind::invalid, cat(owner, " cannot live on this device: it has no optimizer steps"));
  std::shared_ptr<ShardDevice> made(new ShardDevice(std::move(owner), std::move(backend), std::move(optimizer)));
  for (auto* stream : {&made->in_, &made->compute_, &made->out_}) {
    auto opened = made->backend_->make_stream({.device = index});
    if (!opened) return fail(cat(made->owner_, " cannot live on device ", index), opened.error());
    *stream = std::move(*opened);
  }
  return made;
}

// Nobody is left to hear of a failure.
ShardDevice::~ShardDevice() {
  for (auto* stream : {&in_, &compute_, &out_})
    if (*stream) static_cast<void>((*stream)->wait());
}

template <class Allocate>
Tensor ShardDevice::allocate(Shape shape, const std::string& use, const Allocate& allocate) const {
  try {
    return allocate();
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(cat(owner_, ": no memory for ", static_cast<size_t>(shape.count()) * sizeof(float),
                                 " bytes of ", use, ": ", e.what()));
  }
}

Tensor ShardDevice::empty(Shape shape, const std::string& use) const {
  return allocate(shape, use, [&] { return compute_->empty(shape); });
}

Tensor ShardDevice::send(const Tensor& host, const std::string& use) {
  Tensor device = empty(host.shape(), use);
  copy_in(host, device);
  return device;
}

void ShardDevice::send(const Tensor& host, Tensor& device) {
  backend_->order(*out_, *compute_);  // an older fetch of it may be under way
  copy_in(host, device);
}

// The memory may be what the compute stream still uses.
void ShardDevice::copy_in(const Tensor& host, Tensor& device) {
  backend_->order(*compute_, *in_);
  in_->copy(host, device);
  backend_->order(*in_, *compute_);
}

Tensor ShardDevice::fetch(const Tensor& device, const std::string& use) {
  Tensor host = allocate(device.shape(), use + " in host memory",
                         [&] { return empty_on_host(*backend_, device.shape(), device.dtype()); });
  backend_->order(*compute_, *out_);
  out_->copy(device, host);
  ++fetches_;
  return host;
}

void ShardDevice::step(std::span<const Segment> segments, std::span<const Tensor> gradients, const DeviceUpdate& update,
                       const std::string& use) {
  TROUPE_CHECK(!gradients.empty(), "a step of no gradients on ", use);
  Tensor sum = send(gradients.front(), "a gradient of " + use);
  for (const Tensor& next : gradients.subspan(1)) {
    const Tensor other = send(next, "a gradient of " + use);
    backend_->ops().add(*compute_, sum, other, sum);
  }
  backend_->order(*out_, *compute_);  // the values before these may be on their way out
  optimizer_.apply(*compute_, segments,
                   {sum, update.values, update.state, update.gradient_scale, update.clip_scale, update.schedule_step,
                    update.updates, update.rate_scale});
}

}  // namespace troupe::ps
