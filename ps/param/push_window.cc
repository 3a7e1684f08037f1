#include <troupe/ps/param/push_window.h>

#include <bit>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

PushWindow::Place PushWindow::place(Sequence sequence) const {
  if (sequence <= high_water_) return Place::taken;
  const Sequence ahead = sequence - high_water_ - 1;
  if (ahead >= kWidth) return Place::beyond;
  return above_ >> ahead & 1 ? Place::taken : Place::fresh;
}

void PushWindow::take(Sequence sequence) {
  TROUPE_CHECK(place(sequence) == Place::fresh, "sequence ", sequence, " above ", high_water_);
  above_ |= uint64_t{1} << (sequence - high_water_ - 1);
  const int run = std::countr_one(above_);
  high_water_ += static_cast<Sequence>(run);
  above_ = run == kWidth ? 0 : above_ >> run;
}

}  // namespace troupe::ps
