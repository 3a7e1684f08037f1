#include <troupe/ps/transport/memory_transport.h>

#include <utility>

namespace troupe::ps {

void MemoryTransport::attach(const Endpoint& endpoint, Sink sink) { sinks_.attach(endpoint, std::move(sink)); }

void MemoryTransport::detach(const Endpoint& endpoint) { sinks_.detach(endpoint); }

void MemoryTransport::send(Envelope envelope) {
  if (const auto sink = sinks_.find(envelope.to))
    (*sink)(std::make_shared<const Envelope>(std::move(envelope)));
  else
    dropped_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace troupe::ps
