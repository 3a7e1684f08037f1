#pragma once
#include <array>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include <troupe/ps/transport/network_transport.h>

namespace troupe::ps {

/// Counts what was refused, and reports each peer and reason once. After some hundred reports there are no more, so
/// that nobody can fill a log. Thread-safe.
class Refusals {
 public:
  explicit Refusals(std::function<void(const Refusal&)> report) : report_(std::move(report)) {}

  void add(Refusal refusal);
  std::array<int64_t, kRefusalReasons> counts() const;

 private:
  const std::function<void(const Refusal&)> report_;
  mutable std::mutex mutex_;
  std::array<int64_t, kRefusalReasons> counts_{};
  std::set<std::pair<std::string, RefusalReason>> reported_;
};

}  // namespace troupe::ps
