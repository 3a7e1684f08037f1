#pragma once
#include <troupe/ps/metrics/lost_range.h>

namespace troupe::ps {

/// The keys are the field's names.
template <class Json>
Json lost_range_json(const LostRange& lost) {
  return {{"server", lost.server},       {"layer", lost.layer},
          {"begin", lost.begin},         {"end", lost.end},
          {"from_step", lost.from_step}, {"to_step", lost.to_step},
          {"updates", lost.updates},     {"updates_lost", lost.updates_lost}};
}

}  // namespace troupe::ps
