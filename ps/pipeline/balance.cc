#include <troupe/ps/pipeline/balance.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <troupe/ps/pipeline/partition.h>

namespace troupe::ps {
namespace {

std::string percent(double share) { return cat(std::lround(100 * share), " %"); }

std::string shares(std::span<const double> seconds) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::string text;
  for (size_t stage = 0; stage < seconds.size(); ++stage)
    text += cat(stage == 0 ? "" : ", ", "stage ", stage, " ", percent(seconds[stage] / sum));
  return text;
}

}  // namespace

std::string imbalance(std::span<const LayerCost> costs, const StagePlan& plan, std::span<const double> seconds,
                      double threshold) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (!(sum > 0) || std::ranges::min(seconds) <= 0) return {};
  const double slowest = std::ranges::max(seconds), mean = sum / static_cast<double>(seconds.size());
  if (plan.chunks.size() > plan.schedule->stages) {
    if (slowest <= (1 + threshold) * mean) return {};
    return cat("the stages are unequal: ", shares(seconds), " of the computing");
  }
  Partition current{{}, slowest};
  size_t piece = 0, layers = 0;
  for (size_t stage = 0; stage < plan.chunks.size(); ++stage) {
    StageRange range{piece, piece, 1, seconds[stage]};
    for (; piece < costs.size() && layers < plan.chunks[stage].last; range.last = ++piece)
      layers += costs[piece].layers;
    current.stages.push_back(range);
  }
  const auto better = better_partition(costs, current, seconds, threshold);
  if (!better) return {};
  std::string cuts;
  for (const int64_t count : layer_counts(costs, *better)) cuts += cat(cuts.empty() ? "" : ", ", count);
  return cat("the stages are unequal: ", shares(seconds), " of the computing; parallel.cuts = [", cuts,
             "] would take about ", percent(better->time / slowest), " of the slowest one's time");
}

}  // namespace troupe::ps
