#include <troupe/ps/transport/metered_transport.h>

#include <algorithm>
#include <atomic>

namespace troupe::ps {

struct MeteredTransport::Meter {
  std::atomic<int64_t> waiting{0}, most{0}, delivered{0};

  void add() {
    delivered.fetch_add(1, std::memory_order_relaxed);
    const int64_t now = waiting.fetch_add(1, std::memory_order_relaxed) + 1;
    for (int64_t before = most.load(std::memory_order_relaxed); before < now;)
      if (most.compare_exchange_weak(before, now, std::memory_order_relaxed)) break;
  }
  void remove() { waiting.fetch_sub(1, std::memory_order_relaxed); }
};

void MeteredTransport::attach(const Endpoint& endpoint, Sink sink) {
  auto meter = std::make_shared<Meter>();
  {
    std::lock_guard lock(mutex_);
    meters_[endpoint] = meter;
  }
  next_->attach(endpoint, [meter, sink = std::move(sink)](EnvelopePtr envelope) {
    meter->add();
    // The receiver is done with a message when it drops it.
    const Envelope* message = envelope.get();
    sink(EnvelopePtr(message, [meter, envelope = std::move(envelope)](const Envelope*) { meter->remove(); }));
  });
}

int64_t MeteredTransport::most_waiting(Role role) const {
  std::lock_guard lock(mutex_);
  int64_t most = 0;
  for (const auto& [endpoint, meter] : meters_)
    if (endpoint.role == role) most = std::max(most, meter->most.load());
  return most;
}

int64_t MeteredTransport::delivered(Role role) const {
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [endpoint, meter] : meters_)
    if (endpoint.role == role) sum += meter->delivered.load();
  return sum;
}

}  // namespace troupe::ps
