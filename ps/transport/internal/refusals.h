#pragma once
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/transport/network_transport.h>

namespace troupe::ps {

/// Counts what was refused, and reports each peer and reason once, from a thread of its own: a report is written to a
/// terminal or pipe, whose reader may stand still for as long as he likes, and nobody who refuses waits for it. After
/// some hundred reports there are no more, so that nobody can fill a log, or memory. Thread-safe.
class Refusals {
 public:
  /// `report` may be empty.
  explicit Refusals(std::function<void(const Refusal&)> report);
  ~Refusals() { close(); }

  /// Returns at once.
  void add(Refusal refusal);
  std::array<int64_t, kRefusalReasons> counts() const;

  /// Waits until what was to be reported is; from then on there is only counting. Not from `report`.
  void close();

 private:
  const std::function<void(const Refusal&)> report_;
  mutable std::mutex mutex_;  // guards what follows
  std::array<int64_t, kRefusalReasons> counts_{};
  std::set<std::pair<std::string, RefusalReason>> reported_;
  std::unique_ptr<Executor> reporter_;  // null: nothing is reported (any more)
};

}  // namespace troupe::ps
