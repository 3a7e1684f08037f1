#pragma once
#include <memory>

#include <troupe/actors/server.h>
#include <troupe/ps/control/server_core.h>

namespace troupe {

/// What a server's actor does with what its mailbox brings: for spawn_server, and for the actor of a replica that has
/// become the server. Commits run on the parts' executor, which answers through the mailbox; without one, on the
/// actor's thread.
class Serving {
 public:
  explicit Serving(ServerParts parts);
  ~Serving();

  /// False: this was the last message.
  bool take(const ps::EnvelopePtr& envelope, const caf::actor& self);
  bool committed(const Status& status, const caf::actor& self);
  void tick(const caf::actor& self);
  std::chrono::milliseconds retry_interval() const { return parts_.retry_interval; }

 private:
  ps::Outbox handle(const ps::Envelope& envelope);
  void send(ps::Outbox outbox);
  void commit(const caf::actor& self);

  ServerParts parts_;
  ps::ServerCore core_;
  std::shared_ptr<Executor> commits_;
  ps::Generation generation_ = 0;  ///< highest of the coordinator's
};

}  // namespace troupe
