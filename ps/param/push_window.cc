#include <troupe/ps/param/push_window.h>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

void PushWindow::take(Sequence sequence, Sequence width) {
  TROUPE_CHECK(!taken(sequence), "sequence ", sequence, " was taken; mark ", high_water_);
  above_.insert(sequence);
  if (const Sequence highest = *above_.rbegin(); highest - high_water_ > width) {
    high_water_ = highest - width;
    above_.erase(above_.begin(), above_.upper_bound(high_water_));
  }
  while (!above_.empty() && *above_.begin() == high_water_ + 1) {
    above_.erase(above_.begin());
    ++high_water_;
  }
}

}  // namespace troupe::ps
