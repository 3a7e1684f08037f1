#include <troupe/ps/param/vector_clock.h>

#include <algorithm>
#include <limits>

namespace troupe::ps {

void VectorClock::advance(WorkerId worker, Step step) { steps_[worker] = std::max(steps_[worker], step); }

void VectorClock::rebase(Step step) { std::ranges::fill(steps_, step); }

void VectorClock::resize(size_t workers) {
  const bool nobody = std::ranges::find(present_, true) == present_.end();
  steps_.resize(workers, nobody ? 0 : slowest());
  present_.resize(workers, true);
}

Step VectorClock::slowest() const {
  Step slowest = std::numeric_limits<Step>::max();
  for (size_t worker = 0; worker < steps_.size(); ++worker)
    if (present_[worker]) slowest = std::min(slowest, steps_[worker]);
  return slowest;
}

}  // namespace troupe::ps
