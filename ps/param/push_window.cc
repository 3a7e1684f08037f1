#include <troupe/ps/param/push_window.h>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

PushWindow::Place PushWindow::place(Sequence sequence, Sequence width) const {
  if (sequence <= high_water_ || above_.contains(sequence)) return Place::taken;
  return sequence - high_water_ > width ? Place::beyond : Place::fresh;
}

void PushWindow::take(Sequence sequence) {
  const bool fresh = sequence > high_water_ && above_.insert(sequence).second;
  TROUPE_CHECK(fresh, "sequence ", sequence, " was taken; mark ", high_water_);
  while (!above_.empty() && *above_.begin() == high_water_ + 1) {
    above_.erase(above_.begin());
    ++high_water_;
  }
}

}  // namespace troupe::ps
