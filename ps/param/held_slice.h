#pragma once
#include <memory>
#include <span>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/device_slice.h>
#include <troupe/ps/param/optimizer.h>
#include <troupe/ps/param/rows.h>

namespace troupe::ps {

/// The parameters and optimizer state of one slice as its shard holds them. Whoever was given a tensor keeps
/// what was in it: an update writes in place only what nobody else holds, and elsewhere what somebody does. So
/// publishing and snapshots cost nothing until the next update. For use by one thread; others may hold and
/// drop the tensors they were given.
///
/// Where they live on a device (device_slice.h) the tensors that are given out are in host memory all the same, and
/// their contents are there once the device has come that far (ShardDevice::then).
class HeldSlice {
 public:
  /// `first.state` may be empty: all zeros. No `device`: in host memory.
  HeldSlice(const Layout& layout, const Slice& slice, SliceState first, const Optimizer& optimizer,
            std::shared_ptr<ShardDevice> device = nullptr);

  const Slice& slice() const { return slice_; }
  /// One a tensor of the layer that reaches into this slice, ascending.
  const std::vector<Segment>& segments() const { return segments_; }
  const Tensor& values() const { return now_.values; }
  SliceState state() const { return device_ ? device_->state(now_) : now_; }

  /// One optimizer step. `step` brings gradients and scales; parameters, state and counts are filled in here.
  /// New values go to `spare` where old ones are still held, if it fits and nobody holds it either. In host memory
  /// only.
  void apply(const Optimizer& optimizer, SliceUpdate step, Tensor spare = {});
  /// The same with gradients that lie in host memory, wherever the slice does; a device keeps them until it has read
  /// them.
  void apply(const Optimizer& optimizer, SliceUpdate step, std::span<const Tensor> gradients, Tensor spare = {});

  /// The same on the rows of `gradient` alone, in place unless somebody holds the values: then all of them are copied.
  void apply_rows(const Optimizer& optimizer, SliceUpdate step, const RowValues& gradient);

  /// Of a layer by rows, else 0.
  int64_t row_width() const { return row_width_; }
  int32_t first_row() const { return static_cast<int32_t>(slice_.begin / row_width_); }

  /// Takes these over; the sizes fit.
  void install(SliceState state);

 private:
  std::vector<std::span<float>> own_state();

  Slice slice_;
  int64_t row_width_;
  std::vector<Segment> segments_;
  SliceState now_;  ///< on a device: without the state vectors
  std::unique_ptr<DeviceSlice> device_;
};

}  // namespace troupe::ps
