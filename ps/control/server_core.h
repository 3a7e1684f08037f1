#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include <troupe/ps/param/shard.h>

namespace troupe::ps {

/// A server without its actor: a shard, and output commit over its store. The shard's state may be ahead of what the
/// store holds for sure; what it says waits here until the events before it are safe, and leaves in order.
///
///   envelope -> shard (appends events) -> outbox -> held until store.safe() has come up to them -> sent
///
/// Memory: a worker has one unacknowledged push a parcel and waits for one read a parcel, and both wait here, so that
/// what is held is bounded by workers x parcels. Whoever sends more (a foreign peer, or copies while the store stands
/// still) finds that beyond kMostHeld messages what is said is dropped, and that pushes are not taken while the store
/// is full: as if the network had lost them, which every message survives.
class ServerCore {
 public:
  static constexpr size_t kMostHeld = 1 << 16;

  ServerCore(ShardOptions options, std::unique_ptr<Shard> shard, std::shared_ptr<ShardStore> store);

  /// From workers, the coordinator and the replica. What may be sent now, in order.
  Outbox handle(const Envelope& envelope);
  /// Says again what was not answered, and what the store wants said again.
  Outbox tick();

  /// True when store().commit() is to be called, from now on until `committed` is told how it ended.
  bool begin_commit();
  Outbox committed(const Status& status);
  ShardStore& store() { return *store_; }

  /// Nothing is answered any more.
  bool fenced() const { return fenced_ || shard_->fenced(); }
  const Shard& shard() const { return *shard_; }
  size_t held() const { return held_.size(); }

 private:
  Outbox release(Outbox said, bool again = false);

  ShardOptions options_;
  std::unique_ptr<Shard> shard_;
  std::shared_ptr<ShardStore> store_;
  std::deque<std::pair<uint64_t, Envelope>> held_;  ///< what was said after so many events
  bool committing_ = false, fenced_ = false;
};

}  // namespace troupe::ps
