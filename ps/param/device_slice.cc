#include <troupe/ps/param/device_slice.h>

namespace troupe::ps {

void DeviceSlice::install(const SliceState& host) {
  const auto put = [this](const Tensor& from, Tensor& to) {
    if (to)
      device_->send(from, to);
    else
      to = device_->send(from, "parameters and optimizer state of " + use_);
  };
  put(host.values, values_);
  state_.resize(host.state.size());
  for (size_t i = 0; i < state_.size(); ++i) put(host.state[i], state_[i]);
}

Tensor DeviceSlice::apply(const SliceUpdate& step, std::span<const Tensor> gradients) {
  const Tensor none;
  device_->step(segments_, gradients,
                {none, values_, state_, step.gradient_scale, step.clip_scale, step.schedule_step, step.updates,
                 step.rate_scale},
                use_);
  return device_->fetch(values_, "parameters of " + use_);
}

SliceState DeviceSlice::state(SliceState now) const {
  now.state.clear();
  for (const Tensor& state : state_) now.state.push_back(device_->fetch(state, "optimizer state of " + use_));
  return now;
}

}  // namespace troupe::ps
