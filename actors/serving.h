#pragma once
#include <memory>

#include <troupe/actors/server.h>

namespace troupe {

/// What a server's actor does with what its mailbox brings: for spawn_server, and for the actor of a replica that has
/// become the server. Commits run on the parts' executor, which answers through the mailbox; without one, on the
/// actor's thread.
///
/// A shard in host memory is used on the actor's thread. One that lives on a device is made, used and dropped on a
/// queue of its own, since now and then it waits for the device (an image for its store); the actor hands over and goes
/// on. What it says leaves in order, once the device has written what is in it: the queue submits, holds the messages
/// and goes on, and the device's callback comes through the mailbox.
///
///     mailbox   push --+                       DeviceDone --+
///     queue            +-> submit; hold [ack, reply]        +-> send [ack, reply]
///     device                     [copy][update][copy] --^
class Serving {
 public:
  explicit Serving(ServerParts parts);
  ~Serving();

  /// False: this was the last message. Throws what ends the server.
  bool take(const ps::EnvelopePtr& envelope, const caf::actor& self);
  bool obey(const ServerControl& control, const caf::actor& self);
  void tick(const caf::actor& self);
  std::chrono::milliseconds retry_interval() const { return retry_interval_; }

 private:
  class Served;
  /// work(served) now, or on the queue.
  template <class Work>
  bool run(const caf::actor& self, Work work);

  std::shared_ptr<ps::Transport> transport_;
  ps::Endpoint who_;
  std::chrono::milliseconds retry_interval_;
  std::shared_ptr<Executor> queue_;  ///< of a shard on a device
  std::shared_ptr<Served> served_;   ///< once there is a queue, its tasks' alone
  ps::Generation generation_ = 0;    ///< highest of the coordinator's
};

}  // namespace troupe
