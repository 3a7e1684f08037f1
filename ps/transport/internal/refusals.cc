#include <troupe/ps/transport/internal/refusals.h>

#include <future>

namespace troupe::ps {
namespace {

constexpr size_t kMostReports = 256;

}  // namespace

Refusals::Refusals(std::function<void(const Refusal&)> report) : report_(std::move(report)) {
  if (report_) reporter_ = make_cpu_queue("refusals");
}

void Refusals::add(Refusal refusal) {
  std::lock_guard lock(mutex_);
  ++counts_[static_cast<size_t>(refusal.reason)];
  if (!reporter_ || reported_.size() >= kMostReports || !reported_.emplace(refusal.peer, refusal.reason).second) return;
  reporter_->submit([this, refusal = std::move(refusal)] { report_(refusal); });
}

std::array<int64_t, kRefusalReasons> Refusals::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

void Refusals::close() {
  std::unique_lock lock(mutex_);
  const std::unique_ptr<Executor> last = std::move(reporter_);
  lock.unlock();
  if (!last) return;
  std::promise<void> all_reported;
  last->submit([&] { all_reported.set_value(); });
  all_reported.get_future().wait();
}

}  // namespace troupe::ps
