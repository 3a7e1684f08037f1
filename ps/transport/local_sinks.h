#pragma once
#include <map>
#include <memory>
#include <shared_mutex>

#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

/// The endpoints of this process, and who takes what arrives for each. All functions are thread-safe.
class LocalSinks {
 public:
  using Sink = Transport::Sink;

  void attach(const Endpoint& endpoint, Sink sink);
  void detach(const Endpoint& endpoint);
  /// Null where nobody is attached. What is found may be called though `detach` comes meanwhile.
  std::shared_ptr<const Sink> find(const Endpoint& endpoint) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<Endpoint, std::shared_ptr<const Sink>> sinks_;
};

}  // namespace troupe::ps
