#include <troupe/ps/metrics/lost_range.h>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

std::string describe(const LostRange& lost) {
  return cat("layer ", lost.layer, " [", lost.begin, ", ", lost.end, ") of server ", lost.server, " is as before step ",
             lost.from_step, " (", lost.updates, " updates) and goes on with step ", lost.to_step, ": up to ",
             lost.updates_lost, lost.updates_lost == 1 ? " update lost" : " updates lost");
}

int64_t updates_lost(const std::vector<LostRange>& lost) {
  int64_t sum = 0;
  for (const LostRange& range : lost) sum += range.updates_lost;
  return sum;
}

}  // namespace troupe::ps
