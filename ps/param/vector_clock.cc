#include <troupe/ps/param/vector_clock.h>

#include <algorithm>
#include <limits>

namespace troupe::ps {

void VectorClock::set_present(WorkerId worker, bool present) {
  if (present_[worker] == present) return;
  present_[worker] = present;
  find_slowest();
}

void VectorClock::advance(WorkerId worker, Step step) {
  const Step before = steps_[worker];
  if (step <= before) return;
  steps_[worker] = step;
  if (present_[worker] && before == slowest_ && --at_slowest_ == 0) find_slowest();
}

void VectorClock::rebase(Step step) {
  std::ranges::fill(steps_, step);
  find_slowest();
}

void VectorClock::resize(size_t workers) {
  const bool nobody = at_slowest_ == 0;
  steps_.resize(workers, nobody ? 0 : slowest_);
  present_.resize(workers, true);
  find_slowest();
}

void VectorClock::find_slowest() {
  slowest_ = std::numeric_limits<Step>::max();
  for (size_t worker = 0; worker < steps_.size(); ++worker)
    if (present_[worker]) slowest_ = std::min(slowest_, steps_[worker]);
  at_slowest_ = 0;
  for (size_t worker = 0; worker < steps_.size(); ++worker)
    at_slowest_ += present_[worker] && steps_[worker] == slowest_;
}

}  // namespace troupe::ps
