#pragma once
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe::ps {

/// The parameters and optimizer state of one slice as its shard holds them. Whoever was given a tensor keeps
/// what was in it: an update writes in place only what nobody else holds, and elsewhere what somebody does. So
/// publishing and snapshots cost nothing until the next update. For use by one thread; others may hold and
/// drop the tensors they were given.
class HeldSlice {
 public:
  /// `first.state` may be empty: all zeros.
  HeldSlice(const Layout& layout, const Slice& slice, SliceState first, const Optimizer& optimizer);

  const Slice& slice() const { return slice_; }
  /// One a tensor of the layer that reaches into this slice, ascending.
  const std::vector<Segment>& segments() const { return segments_; }
  const Tensor& values() const { return now_.values; }
  const SliceState& state() const { return now_; }

  /// One optimizer step. `step` brings gradients and scales; parameters, state and counts are filled in here.
  /// New values go to `spare` where old ones are still held, if it fits and nobody holds it either.
  void apply(const Optimizer& optimizer, SliceUpdate step, Tensor spare = {});

  /// Takes these over; the sizes fit.
  void install(SliceState state) { now_ = std::move(state); }

 private:
  Slice slice_;
  std::vector<Segment> segments_;
  SliceState now_;
};

}  // namespace troupe::ps
