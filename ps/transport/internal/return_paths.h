#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// Over which connection an endpoint was last heard of. Holds the last `limit` of them, so that strangers cannot
/// fill memory. Thread-safe.
class ReturnPaths {
 public:
  explicit ReturnPaths(size_t limit) : limit_(limit) {}

  void learn(const Endpoint& from, const std::string& route);
  /// Empty: not heard of, or forgotten.
  std::string to(const Endpoint& endpoint) const;
  size_t size() const;

 private:
  struct Known {
    std::string route;
    std::list<Endpoint>::iterator age;
  };

  const size_t limit_;
  mutable std::mutex mutex_;
  std::list<Endpoint> ages_;  ///< newest first
  std::map<Endpoint, Known> known_;
};

}  // namespace troupe::ps
