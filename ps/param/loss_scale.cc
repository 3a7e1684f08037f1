#include <troupe/ps/param/loss_scale.h>

#include <algorithm>
#include <limits>

namespace troupe::ps {

LossScale next_loss_scale(const LossScaling& scaling, LossScale now, bool overflow) {
  if (!scaling.dynamic) return now;
  if (overflow) return {std::max(scaling.least, now.value * scaling.backoff), 0};
  if (++now.good_steps < scaling.interval) return now;
  const double grown = now.value * scaling.growth;
  return {grown <= std::numeric_limits<float>::max() ? grown : now.value, 0};
}

}  // namespace troupe::ps
