#include <troupe/ps/transport/memory_transport.h>

#include <mutex>
#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

void MemoryTransport::attach(const Endpoint& endpoint, Sink sink) {
  auto shared = std::make_shared<const Sink>(std::move(sink));
  std::unique_lock lock(mutex_);
  const bool added = sinks_.emplace(endpoint, std::move(shared)).second;
  TROUPE_CHECK(added, endpoint, " is attached already");
}

void MemoryTransport::detach(const Endpoint& endpoint) {
  std::shared_ptr<const Sink> sink;  // outlives the lock: it may own an actor whose end sends messages
  std::unique_lock lock(mutex_);
  if (const auto found = sinks_.find(endpoint); found != sinks_.end()) {
    sink = std::move(found->second);
    sinks_.erase(found);
  }
}

void MemoryTransport::send(Envelope envelope) {
  std::shared_ptr<const Sink> sink;
  {
    std::shared_lock lock(mutex_);
    if (const auto found = sinks_.find(envelope.to); found != sinks_.end()) sink = found->second;
  }
  if (sink)
    (*sink)(std::make_shared<const Envelope>(std::move(envelope)));
  else
    dropped_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace troupe::ps
