#include "reference.h"

#include <algorithm>
#include <cmath>

#include <troupe/kernels/base/text.h>

#include "row_values.h"

namespace troupe::sim {

ReferenceSlice::ReferenceSlice(const ps::Slice& slice, std::span<const float> first)
    : slice_(slice), initial_(first.begin() + slice.begin, first.begin() + slice.end), current_(initial_) {}

ReferenceSlice::ReferenceSlice(const ps::Slice& slice, std::span<const float> values, int64_t updates)
    : slice_(slice), initial_(values.begin(), values.end()), current_(initial_), updates_(updates) {}

void ReferenceSlice::apply(ps::Step step, std::span<const double> gradient, double scale) {
  Change& change = changes_[step];
  change.sum.resize(current_.size());
  for (size_t i = 0; i < current_.size(); ++i) {
    change.sum[i] -= gradient[i] * scale;
    current_[i] -= gradient[i] * scale;
  }
  ++change.updates;
  ++updates_;
}

std::vector<double> ReferenceSlice::before(ps::Step step) const {
  std::vector<double> values = initial_;
  for (auto it = changes_.begin(); it != changes_.lower_bound(step); ++it)
    for (size_t i = 0; i < values.size(); ++i) values[i] += it->second.sum[i];
  return values;
}

int64_t ReferenceSlice::updates_before(ps::Step step) const {
  int64_t updates = 0;
  for (auto it = changes_.begin(); it != changes_.lower_bound(step); ++it) updates += it->second.updates;
  return updates;
}

bool ReferenceServer::complete(const ReferenceSlice& slice, ps::Step step) const {
  const uint32_t stage = layout->stage_of_layer(slice.slice().layer);
  for (ps::WorkerId w = 0; w < workers.size(); ++w)
    if (workers[w] != 0 && w % layout->stages == stage && !slice.has(w, step)) return false;
  return true;
}

ps::Step ReferenceServer::slowest(ps::SliceId slice, ps::Step from) const {
  const ReferenceSlice& held = slices.at(slice);
  ps::Step step = std::max(base, from);
  while (complete(held, step)) ++step;
  return step;
}

std::string difference(std::span<const float> values, std::span<const double> expected) {
  if (values.size() != expected.size()) return cat(values.size(), " elements, should be ", expected.size());
  // Means over three samples are no floats; whatever is wrong is wrong by far more.
  constexpr double kTolerance = 2e-3;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != kUnread && !(std::abs(values[i] - expected[i]) <= kTolerance))
      return cat("element ", i, " is ", values[i], ", should be ", expected[i]);
  return {};
}

}  // namespace troupe::sim
