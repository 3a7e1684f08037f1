#include <troupe/ps/param/device_slice.h>

#include <algorithm>

namespace troupe::ps {
namespace {

bool same_memory(const Tensor& a, const Tensor& b) { return a.raw() == b.raw() && a.buffer() == b.buffer(); }

}  // namespace

DeviceSlice::DeviceSlice(std::shared_ptr<ShardDevice> device, const std::string& name, std::vector<Segment> segments)
    : device_(std::move(device)), use_("layer " + name), segments_(std::move(segments)) {
  for (const Segment& segment : segments_)
    add_range(ranges_, {segment.begin, segment.end, segment.kind != ParamKind::statistic});
}

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

Tensor DeviceSlice::measure(std::span<const Tensor> gradients) {
  sum_ = {};  // first, so that the two never add up
  sum_ = device_->sum(gradients, use_);
  summed_.assign(gradients.begin(), gradients.end());
  return device_->measure(sum_, ranges_, use_);
}

// A worker that came in between adds a gradient to the step.
Tensor DeviceSlice::apply(const SliceUpdate& step, std::span<const Tensor> gradients) {
  const bool is_summed = std::ranges::equal(gradients, std::exchange(summed_, {}), same_memory);
  Tensor sum = std::exchange(sum_, {});
  if (!is_summed) sum = device_->sum(gradients, use_);
  device_->step(segments_, {sum, values_, state_, step.gradient_scale, step.clip_scale, step.schedule_step,
                            step.updates, step.rate_scale});
  return device_->fetch(values_, "parameters of " + use_);
}

SliceState DeviceSlice::state(SliceState now) const {
  now.state.clear();
  for (const Tensor& state : state_) now.state.push_back(device_->fetch(state, "optimizer state of " + use_));
  return now;
}

}  // namespace troupe::ps
