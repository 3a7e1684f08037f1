#pragma once
#include <functional>
#include <memory>

#include <troupe/ps/messages.h>

namespace troupe::ps {

using EnvelopePtr = std::shared_ptr<const Envelope>;

/// Carries envelopes between the actors of a run. Messages to one receiver from one sender keep their order
/// on a reliable transport; an unreliable one may lose, double, delay and reorder.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Takes what arrives for one endpoint. Called from any thread; hands over and returns at once.
  using Sink = std::function<void(EnvelopePtr)>;

  /// From now on messages for `endpoint` go to `sink`. One sink an endpoint.
  virtual void attach(const Endpoint& endpoint, Sink sink) = 0;
  /// Messages for `endpoint` are dropped from now on.
  virtual void detach(const Endpoint& endpoint) = 0;

  /// Thread-safe. A message to an endpoint that nobody attached is dropped and counted: the sender's
  /// repetition, or the membership, takes care of it.
  virtual void send(Envelope envelope) = 0;

  /// False where messages can get lost, so that senders must repeat theirs.
  virtual bool reliable() const = 0;
};

}  // namespace troupe::ps
