#pragma once
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/messages.h>

namespace troupe::ps {

/// Where a shard keeps what it has promised. `append` returns once the event survives what the run's
/// durability promises; only then is a push acknowledged. A store belongs to a slot and outlives the actors
/// that fill it: each opens it with its generation, and from then on appends of older ones fail ("fenced"), so that
/// a server that was replaced without knowing it can promise nothing. Thread-safe: the old actor and the new
/// one may call at once.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  /// Takes the store over for `generation`, higher than any before (ErrorKind::cancelled otherwise); the events
  /// come back in order through `replay`, which must not append.
  virtual Status open(Generation generation, const std::function<void(const Envelope&)>& replay) = 0;
  /// ErrorKind::cancelled: fenced, another actor has opened the store since.
  virtual Status append(Generation generation, const Envelope& event) = 0;
};

/// Keeps nothing: durability = "checkpoint". What is lost is what came after the last checkpoint.
std::shared_ptr<ShardStore> make_null_store();
/// Keeps every event, with its gradients, in memory for as long as the store lives: a server actor can be
/// restarted in its process. For short runs and the simulator: memory grows with every push.
std::shared_ptr<ShardStore> make_memory_store();

}  // namespace troupe::ps
