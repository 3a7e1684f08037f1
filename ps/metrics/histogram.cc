#include <troupe/ps/metrics/histogram.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

void Histogram::add(int64_t value, int64_t times) {
  TROUPE_CHECK(value >= 0 && bins_ > 0, "value ", value, ", ", bins_, " bins");
  const size_t bin = std::min(static_cast<size_t>(value), bins_ - 1);
  if (counts_.size() <= bin) counts_.resize(bin + 1);
  counts_[bin] += times;
}

void Histogram::add(const Histogram& other) {
  bins_ = std::max(bins_, other.bins_);
  for (size_t value = 0; value < other.counts_.size(); ++value)
    if (other.counts_[value] > 0) add(static_cast<int64_t>(value), other.counts_[value]);
}

int64_t Histogram::total() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

int64_t Histogram::percentile(double share) const {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(total())));
  int64_t seen = 0;
  for (size_t value = 0; value < counts_.size(); ++value) {
    seen += counts_[value];
    if (seen >= wanted && seen > 0) return static_cast<int64_t>(value);
  }
  return 0;
}

std::vector<int64_t> Histogram::counts() const {
  auto end = counts_.end();
  while (end != counts_.begin() && end[-1] == 0) --end;
  return {counts_.begin(), end};
}

}  // namespace troupe::ps
