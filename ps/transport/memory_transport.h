#pragma once
#include <atomic>
#include <cstdint>

#include <troupe/ps/transport/local_sinks.h>

namespace troupe::ps {

/// The transport inside one process: `send` calls the receiver's sink on the sender's thread, so that nothing
/// is copied, lost or reordered between one sender and one receiver. All functions are thread-safe. A sink may
/// send, attach and detach. A send that has found its sink when `detach` comes still calls it: sinks hold
/// what they need, and ignore what comes late.
class MemoryTransport final : public Transport {
 public:
  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override;
  void send(Envelope envelope) override;
  bool reliable() const override { return true; }

  /// Messages to endpoints that nobody had attached.
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  LocalSinks sinks_;
  std::atomic<int64_t> dropped_{0};
};

}  // namespace troupe::ps
