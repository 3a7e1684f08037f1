#pragma once
#include <map>
#include <memory>
#include <vector>

#include <troupe/ps/param/held_parcel.h>
#include <troupe/ps/param/held_slice.h>
#include <troupe/ps/param/push_window.h>
#include <troupe/ps/param/shard.h>
#include <troupe/ps/param/shard_image.h>

namespace troupe::ps {

/// What a shard knows of the worker in a slot.
struct WorkerSlot {
  Incarnation incarnation = 0;  ///< 0: empty
  PushWindow window;
  uint64_t install_round = 0;  ///< of its newest Install
};

/// The parcel that a slice travels in, and where in it.
struct SlicePlace {
  ParcelId parcel = 0;
  size_t index = 0;
};

/// What a shard holds under its layout, how it follows a change of membership, and how it becomes an image and comes
/// back from one. Empty until the first membership.
struct Holdings {
  std::shared_ptr<const Layout> layout;
  std::vector<WorkerSlot> workers;      ///< by slot
  std::map<SliceId, HeldSlice> slices;  ///< those of this server, as are all below
  std::map<ParcelId, HeldParcel> parcels;
  std::map<SliceId, SlicePlace> places;

  /// Can what is here go on under this membership? Clocks cannot be carried to other parcels, nor contributions to
  /// another step.
  Status check_change(const Membership& m) const;

  /// Holds what the layout gives to this server (new slices begin as `initial` says), seats the workers, and goes
  /// on from the step of a rebase. The membership has passed the checks.
  void take_over(const Membership& m, const ShardOptions& options, const Shard::InitialState& initial);

  /// Workers, parcels and slices as they are, without the pulls that wait: whoever waits asks again.
  void put_into(ShardImage& image) const;
  /// Holds what the image says. It has passed check_image.
  void go_on_from(const ShardImage& image, const ShardOptions& options);

  /// Shared with what is here until the next update. A device may still be filling them in.
  std::vector<SliceState> state() const;

 private:
  void hold_layout(const ShardOptions& options, const Shard::InitialState& initial);
  void seat(const std::vector<Incarnation>& incarnations);
  void rebase(Step step);
};

}  // namespace troupe::ps
