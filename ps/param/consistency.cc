#include <troupe/ps/param/consistency.h>

#include <algorithm>

namespace troupe::ps {

bool may_read(const Policy& policy, Step step, Step version, const VectorClock& clock) {
  switch (policy.mode) {
    case Mode::all_reduce: return true;
    case Mode::sync: return version >= step;
    case Mode::ssp: return clock.slowest() >= step - policy.staleness;
    case Mode::async: return true;
  }
  return false;
}

int64_t lag(const Policy& policy, Step step, Step version, const VectorClock& clock) {
  switch (policy.mode) {
    case Mode::all_reduce: return 0;
    case Mode::sync: return std::max<int64_t>(0, step - version);
    case Mode::ssp:
    case Mode::async: return step > clock.slowest() ? step - clock.slowest() : 0;
  }
  return 0;
}

}  // namespace troupe::ps
