#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/shard_device.h>

namespace troupe::ps {

/// Parameters and optimizer state of one slice on its shard's device. What comes and goes is in host memory, and what
/// goes is there when the device has come to it (ShardDevice::then).
class DeviceSlice {
 public:
  /// Of layer `name`; holds nothing before the first `install`.
  DeviceSlice(std::shared_ptr<ShardDevice> device, const std::string& name, std::vector<Segment> segments)
      : device_(std::move(device)), use_("layer " + name), segments_(std::move(segments)) {}

  /// Copies these to the device.
  void install(const SliceState& host);
  /// One optimizer step; the new values. Scales, counts of `step` are used, its vectors are not.
  Tensor apply(const SliceUpdate& step, std::span<const Tensor> gradients);
  /// `now` with the state vectors, which are fetched.
  SliceState state(SliceState now) const;

 private:
  std::shared_ptr<ShardDevice> device_;
  std::string use_;
  std::vector<Segment> segments_;
  Tensor values_;
  std::vector<Tensor> state_;
};

}  // namespace troupe::ps
