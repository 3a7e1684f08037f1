#pragma once
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/messages.h>

namespace troupe::ps {

/// Where a shard keeps what it has promised. What survives is told by `[checkpoint] durability`:
///
///   checkpoint   make_null_store          nothing: what came after the last checkpoint is lost with the process
///   logged       make_logged_store        a log on the server's disk (ps/checkpoint/logged_store.h): survives the
///                                         process; with Sync::each also the machine, where its disk does
///   replicated   make_replicated_store    the server's replica on another node (ps/control/replicated_store.h):
///                                         survives the loss of either, not of both before another is in step
///
/// A store belongs to a slot, and its contents outlive the actors that fill it: each opens it with its generation, and
/// from then on appends of older ones fail ("fenced"), so that a server that was replaced without knowing it can
/// promise nothing.
///
/// `append` may be ahead of what is safe: on its way to the disk or the replica. The shard's state runs ahead too;
/// but no message that was said after an event leaves before the event is safe (output commit: Strom and Yemini,
/// "Optimistic recovery in distributed systems", 1985; ServerCore does it). So nobody ever depends on what could be
/// lost, and one flush serves all that came during the flush before it.
///
/// A store that has grown, or that a replica joins, asks for an image of the shard, which then stands for all events
/// before it. It comes back as the first event, a Replicate of index 0.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  /// Takes the store over for `generation`, higher than any before (ErrorKind::cancelled otherwise); the events
  /// come back in order through `replay`, which must not append.
  virtual Status open(Generation generation, const std::function<void(const Envelope&)>& replay) = 0;
  /// ErrorKind::cancelled: fenced, another actor has opened the store since.
  virtual Status append(Generation generation, const Envelope& event) = 0;

  virtual bool wants_image() const { return false; }
  /// The image takes the place of everything appended before, wholly or not at all. Errors as of `append`.
  virtual Status compact(Generation generation, std::shared_ptr<const ShardImage> image) = 0;

  /// Events since it was opened, and how many of them are safe.
  virtual uint64_t appended() const { return 0; }
  virtual uint64_t safe() const { return appended(); }
  /// Makes everything appended before the call safe, or says why not (errors as of `append`); takes as long as a disk
  /// does. Only where `needs_commit`; one call at a time, on any thread.
  virtual Status commit() { return {}; }
  virtual bool needs_commit() const { return false; }

  /// For a store whose other copy is an actor: what is to be said to it now, or again after a while; and what it said.
  virtual Outbox say(bool /*again*/) { return {}; }
  virtual void hear(const Envelope& /*from_replica*/) {}
  /// So much is not safe yet that pushes have to wait.
  virtual bool full() const { return false; }
};

/// Keeps nothing. Thread-safe, as is the next: the old actor of a slot and the new one may call at once.
std::shared_ptr<ShardStore> make_null_store();
/// Keeps every event, with its gradients, in memory for as long as the store lives: a server actor can be
/// restarted in its process. Wants an image after so many events; 0: never, so that memory grows with every push.
std::shared_ptr<ShardStore> make_memory_store(size_t events_between_images = 0);

}  // namespace troupe::ps
