#include <troupe/ps/transport/internal/refusals.h>

namespace troupe::ps {
namespace {

constexpr size_t kMostReports = 256;

}  // namespace

void Refusals::add(Refusal refusal) {
  {
    std::lock_guard lock(mutex_);
    ++counts_[static_cast<size_t>(refusal.reason)];
    if (!report_ || reported_.size() >= kMostReports || !reported_.emplace(refusal.peer, refusal.reason).second) return;
  }
  report_(refusal);
}

std::array<int64_t, kRefusalReasons> Refusals::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace troupe::ps
