#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::ps {

/// How often each small number came up: staleness in steps, delays in updates. Bin i counts the value i; the
/// last of `bins` counts everything from there on, so that memory stays bounded. A value type.
class Histogram {
 public:
  explicit Histogram(size_t bins = 64) : bins_(bins) {}
  /// Counts made elsewhere, with the same meaning (LayerCounters).
  explicit Histogram(std::span<const int64_t> counts) : bins_(counts.size()), counts_(counts.begin(), counts.end()) {}

  void add(int64_t value, int64_t times = 1);
  void add(const Histogram& other);

  int64_t total() const;
  /// The smallest value that at least `share` of all are not above; 0 when empty. percentile(0.5) is the
  /// median.
  int64_t percentile(double share) const;
  /// The largest value seen; where the last bin holds any, its number.
  int64_t max() const { return percentile(1); }
  /// By value, without zeros at the end.
  std::vector<int64_t> counts() const;

 private:
  size_t bins_;
  std::vector<int64_t> counts_;
};

}  // namespace troupe::ps
