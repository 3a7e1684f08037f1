#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include <troupe/ps/param/shard.h>

namespace troupe::ps {

struct ReplicaOptions {
  Endpoint self;  ///< replica, index of its server, incarnation
  /// As its server's; `self` apart.
  ShardOptions shard;
  Shard::InitialState initial;
  Generation since = 0;  ///< of the order to start it: no coordinator of an older one is heeded
};

/// The replica of a server's shard, without its actor: a twin that takes the events its server's shard took, in their
/// order, and says nothing of its own. No thread, clock, file or socket.
///
///   empty --Replicate 0 (the image)--> following --take_over--> handed over: says nothing, for ever
///             ^                            |
///             +--- of a newer server ------+
///
/// Acknowledges what it holds without a gap; what comes early (kAhead at most) waits. Says Synced until the coordinator
/// has heard. Of a server incarnation older than the one it follows it takes nothing.
class ReplicaCore {
 public:
  static constexpr uint64_t kAhead = 1024;

  explicit ReplicaCore(ReplicaOptions options);

  /// Replicate, SyncedAck, Membership (only acknowledged) and Finish; anything else is ignored, and so is a coordinator
  /// whose place another has taken.
  Outbox handle(const Envelope& envelope);
  Outbox tick() const;

  /// The twin, as the shard of `server`, a newer incarnation than the one that was followed: it goes on with `store`
  /// when a Membership names it. An error where nothing is followed yet (the image has not come) or the twin was
  /// handed over.
  Result<std::unique_ptr<Shard>> take_over(const Endpoint& server, std::shared_ptr<ShardStore> store);

  /// The server it follows; null: none yet.
  const std::optional<Endpoint>& following() const { return server_; }
  uint64_t events() const { return held_; }
  /// The highest that it has heard.
  Generation generation() const { return generation_; }
  /// It was told that it is not needed any more.
  bool finished() const { return finished_; }

 private:
  void on_replicate(Outbox& out, const Envelope& envelope, const Replicate& replicate);
  Status begin(const Envelope& envelope, const ShardImage& image);
  Status follow_all();

  ReplicaOptions options_;
  std::optional<Endpoint> server_;
  Generation generation_ = 0;
  std::unique_ptr<Shard> twin_;
  uint64_t held_ = 0;  ///< events, without a gap
  std::map<uint64_t, std::shared_ptr<const Envelope>> early_;
  bool synced_heard_ = false, handed_over_ = false, broken_ = false, finished_ = false;
};

}  // namespace troupe::ps
