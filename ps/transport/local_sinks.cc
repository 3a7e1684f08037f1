#include <troupe/ps/transport/local_sinks.h>

#include <mutex>
#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

void LocalSinks::attach(const Endpoint& endpoint, Sink sink) {
  auto shared = std::make_shared<const Sink>(std::move(sink));
  std::unique_lock lock(mutex_);
  const bool added = sinks_.emplace(endpoint, std::move(shared)).second;
  TROUPE_CHECK(added, endpoint, " is attached already");
}

void LocalSinks::detach(const Endpoint& endpoint) {
  std::shared_ptr<const Sink> sink;  // outlives the lock: it may own an actor whose end sends messages
  std::unique_lock lock(mutex_);
  if (const auto found = sinks_.find(endpoint); found != sinks_.end()) {
    sink = std::move(found->second);
    sinks_.erase(found);
  }
}

std::shared_ptr<const LocalSinks::Sink> LocalSinks::find(const Endpoint& endpoint) const {
  std::shared_lock lock(mutex_);
  const auto found = sinks_.find(endpoint);
  return found == sinks_.end() ? nullptr : found->second;
}

}  // namespace troupe::ps
