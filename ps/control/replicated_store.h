#pragma once
#include <cstdint>
#include <deque>
#include <memory>

#include <troupe/ps/param/fence.h>
#include <troupe/ps/param/shard_store.h>

namespace troupe::ps {

struct ReplicationOptions {
  ServerId server = 0;
  /// Of events that the replica has not acknowledged: beyond it pushes wait. More than one step's gradients of
  /// all workers never lie here.
  int64_t window_bytes = int64_t{1} << 30;
  /// What is said again at once when a tick has passed without an acknowledgement.
  int64_t repeat_bytes = 4 << 20;
};

/// durability = "replicated": the store whose other copy is the replica of Membership::replicas, a twin of the shard
/// on another node (ReplicaCore).
///
///   unreplicated --Membership names a replica--> joining --image taken--> replicating --another, or none--> ...
///     safe: all           safe: what was, until the replica has the image         safe: what it acknowledged
///
/// Nothing is said by the server while a new replica receives the image: what was acknowledged to a worker must be in
/// what the replica calls Synced. Without a replica (it died, and there is no other yet) the run goes on
/// unreplicated: one of the two copies is lost already; the coordinator, which decides that, says so.
///
/// Fencing: the coordinator has a replica take over before it names another server, and a replica that took over
/// acknowledges nothing. So an old server that goes on can say nothing that follows from an event its replica has not
/// got.
///
/// One actor's: made for it and not thread-safe.
std::shared_ptr<ShardStore> make_replicated_store(ReplicationOptions options);

}  // namespace troupe::ps
