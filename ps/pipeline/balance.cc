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

Pieces pieces_of(const nn::Model& model) {
  Pieces out;
  out.ends = model.cuts();
  out.ends.push_back(model.layers().size());
  size_t layer = 0;
  for (const size_t end : out.ends) {
    LayerCost cost;
    cost.name = model.layers()[layer].name;
    for (; layer < end; ++layer) {
      const auto work = static_cast<double>(model.work(layer));
      cost.forward += work;
      cost.backward_input += work;
      cost.backward_weight += work;
    }
    out.costs.push_back(std::move(cost));
  }
  return out;
}

std::string imbalance(const nn::Model& model, const StagePlan& plan, std::span<const double> seconds,
                      double threshold) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (!(sum > 0) || std::ranges::min(seconds) <= 0) return {};
  const double slowest = std::ranges::max(seconds), mean = sum / static_cast<double>(seconds.size());
  if (plan.chunks.size() > plan.schedule->stages) {
    if (slowest <= (1 + threshold) * mean) return {};
    return cat("the stages are unequal: ", shares(seconds), " of the computing");
  }
  const Pieces pieces = pieces_of(model);
  Partition current;
  size_t piece = 0;
  for (size_t stage = 0; stage < plan.chunks.size(); ++stage) {
    StageRange range{piece, piece, 1, seconds[stage]};
    while (piece < pieces.ends.size() && pieces.ends[piece] <= plan.chunks[stage].last) range.last = ++piece;
    current.stages.push_back(range);
  }
  current.time = slowest;
  const auto better = better_partition(pieces.costs, current, seconds, threshold);
  if (!better) return {};
  std::string cuts;
  size_t first = 0;
  for (const StageRange& stage : better->stages) {
    const size_t last = pieces.ends[stage.last - 1];
    cuts += cat(first == 0 ? "" : ", ", last - first);
    first = last;
  }
  return cat("the stages are unequal: ", shares(seconds), " of the computing; parallel.cuts = [", cuts,
             "] would take about ", percent(better->time / slowest), " of the slowest one's time");
}

}  // namespace troupe::ps
