#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <troupe/ps/param/shard.h>

namespace troupe::ps {

/// Makes a shard's immediate pushes and reads follow a recorded run: what comes too early is held until its
/// turn. When the order has ended nothing waits any more.
class RecordedOrder {
 public:
  void start(std::vector<Shard::Event> order);

  /// True for a push before its turn, and for a read whose turn is still to come; a read that had its turn
  /// (sent again) never waits.
  bool must_wait(const Shard::Event& event) const;
  /// A copy of what is held already replaces it.
  void hold(const Shard::Event& event, Envelope envelope);
  /// The event has happened: the turn goes to the next.
  void happened(const Shard::Event& event);
  /// Takes out what was held and may go on now.
  std::optional<Envelope> take_ready();

 private:
  using Key = std::tuple<Shard::Event::Kind, WorkerId, ParcelId, Step>;
  static Key key(const Shard::Event& e) { return {e.kind, e.worker, e.parcel, e.step}; }
  bool ended() const { return next_ == order_.size(); }

  std::vector<Shard::Event> order_;
  size_t next_ = 0;
  std::map<Key, int> to_come_;
  std::map<Key, Envelope> held_;
};

}  // namespace troupe::ps
