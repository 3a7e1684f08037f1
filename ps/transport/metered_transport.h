#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

/// Counts, for each endpoint, the messages that were handed over to it and that it is not done with: how far its
/// mailbox has filled. A decorator for benchmarks and tests; it costs an allocation a message.
class MeteredTransport final : public Transport {
 public:
  explicit MeteredTransport(std::shared_ptr<Transport> next) : next_(std::move(next)) {}

  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override { next_->detach(endpoint); }
  void send(Envelope envelope) override { next_->send(std::move(envelope)); }
  bool reliable() const override { return next_->reliable(); }

  /// The largest number of messages that any endpoint of `role` has had at once, the one it works on included.
  int64_t most_waiting(Role role) const;
  /// Messages handed over to endpoints of `role`.
  int64_t delivered(Role role) const;

 private:
  struct Meter;

  std::shared_ptr<Transport> next_;
  mutable std::mutex mutex_;
  std::map<Endpoint, std::shared_ptr<Meter>> meters_;
};

}  // namespace troupe::ps
