#include <troupe/ps/pipeline/partition.h>

#include <algorithm>
#include <limits>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

/// Sums over ranges of layers in constant time.
class Costs {
 public:
  Costs(std::span<const LayerCost> layers, const PartitionOptions& options) : layers_(layers), options_(options) {
    for (const LayerCost& layer : layers) {
      times_.push_back(times_.back() + layer.time());
      bytes_.push_back(bytes_.back() + layer.parameter_bytes);
    }
  }

  double stage(size_t first, size_t last, uint32_t replicas) const {
    const double r = replicas;
    const double synchronisation = 4 * (r - 1) / r * (bytes_[last] - bytes_[first]) / options_.bytes_per_s;
    return (times_[last] - times_[first] + synchronisation) / r;
  }

  /// Between layer `first` - 1 and `first`.
  double transfer(size_t first) const {
    return options_.count_transfers && first > 0 ? 2 * layers_[first - 1].output_bytes / options_.bytes_per_s : 0;
  }

 private:
  std::span<const LayerCost> layers_;
  const PartitionOptions& options_;
  std::vector<double> times_ = {0}, bytes_ = {0};
};

/// The best way to run layers [0, last) on a number of devices: its last stage, and its time.
struct Best {
  double time = std::numeric_limits<double>::infinity();
  size_t first = 0;       ///< where the last stage begins
  uint32_t replicas = 0;  ///< of the last stage
};

class Table {
 public:
  Table(size_t layers, const PartitionOptions& options, const Costs& costs)
      : layers_(layers), options_(options), costs_(costs), best_((layers + 1) * (options.devices + 1)) {
    for (uint32_t devices = 1; devices <= options.devices; ++devices)
      for (size_t last = 1; last <= layers; ++last) fill(last, devices);
  }

  Partition partition() const {
    Partition result{.time = at(layers_, options_.devices).time};
    size_t last = layers_;
    for (uint32_t devices = options_.devices; devices > 0;) {
      const Best& best = at(last, devices);
      result.stages.push_back({best.first, last, best.replicas, costs_.stage(best.first, last, best.replicas)});
      last = best.first, devices -= best.replicas;
    }
    std::reverse(result.stages.begin(), result.stages.end());
    return result;
  }

 private:
  const Best& at(size_t last, uint32_t devices) const { return best_[last * (options_.devices + 1) + devices]; }

  void fill(size_t last, uint32_t devices) {
    Best best;
    if (devices == 1 || options_.replicate) best = {costs_.stage(0, last, devices), 0, devices};
    const uint32_t most = options_.replicate ? devices - 1 : std::min(1u, devices - 1);
    for (size_t first = 1; first < last; ++first)
      for (uint32_t replicas = 1; replicas <= most; ++replicas) {
        const double before = std::max(at(first, devices - replicas).time, costs_.transfer(first));
        const double time = std::max(before, costs_.stage(first, last, replicas));
        if (time < best.time) best = {time, first, replicas};
      }
    best_[last * (options_.devices + 1) + devices] = best;
  }

  size_t layers_;
  const PartitionOptions& options_;
  const Costs& costs_;
  std::vector<Best> best_;  // by last and devices
};

Result<Partition> partition_with_ends(std::span<const LayerCost> layers, const std::vector<size_t>& ends,
                                      const PartitionOptions& options) {
  const Costs costs(layers, options);
  Partition result;
  size_t first = 0;
  for (const size_t last : ends) {
    const StageRange stage{first, last, 1, costs.stage(first, last, 1)};
    result.time = std::max({result.time, stage.time, costs.transfer(first)});
    result.stages.push_back(stage);
    first = last;
  }
  return result;
}

}  // namespace

Result<Partition> partition(std::span<const LayerCost> layers, const PartitionOptions& options) {
  if (layers.empty() || options.devices == 0)
    return fail(ErrorKind::invalid,
                cat("nothing to cut: ", layers.size(), " layers for ", options.devices, " devices"));
  if (!options.replicate && options.devices > layers.size())
    return fail(ErrorKind::invalid, cat(options.devices, " stages are more than the model's ", layers.size(),
                                        " layers; a stage needs at least one"));
  const Costs costs(layers, options);
  return Table(layers.size(), options, costs).partition();
}

Result<Partition> partition_by_counts(std::span<const LayerCost> layers, std::span<const int64_t> counts,
                                      const PartitionOptions& options) {
  std::vector<size_t> ends;
  int64_t sum = 0;
  const auto all = static_cast<int64_t>(layers.size());
  for (const int64_t count : counts) {
    if (count < 1)
      return fail(ErrorKind::invalid, cat("stage ", ends.size(), " has ", count, " layers; at least one is needed"));
    if (count > all - sum)
      return fail(ErrorKind::invalid,
                  cat("stage ", ends.size(), " with ", count, " layers ends beyond the model's ", all, " layers"));
    sum += count;
    ends.push_back(static_cast<size_t>(sum));
  }
  if (sum != all)
    return fail(ErrorKind::invalid, cat("the stages' counts add up to ", sum, " of the model's ", all, " layers"));
  return partition_with_ends(layers, ends, options);
}

std::vector<int64_t> layer_counts(std::span<const LayerCost> layers, const Partition& partition) {
  std::vector<int64_t> counts;
  for (const StageRange& stage : partition.stages) {
    counts.push_back(0);
    for (size_t k = stage.first; k < stage.last; ++k) counts.back() += layers[k].layers;
  }
  return counts;
}

std::optional<Partition> better_partition(std::span<const LayerCost> layers, const Partition& current,
                                          std::span<const double> measured, double threshold) {
  TROUPE_CHECK(measured.size() == current.stages.size(), measured.size(), " times for ", current.stages.size(),
               " stages");
  std::vector<LayerCost> scaled(layers.begin(), layers.end());
  double slowest = 0;
  for (size_t k = 0; k < measured.size(); ++k) {
    const StageRange& stage = current.stages[k];
    double sum = 0;
    for (size_t layer = stage.first; layer < stage.last; ++layer) sum += layers[layer].time();
    slowest = std::max(slowest, measured[k]);
    for (size_t layer = stage.first; layer < stage.last; ++layer) {
      const double share = sum > 0 ? layers[layer].time() / sum : 1.0 / static_cast<double>(stage.last - stage.first);
      scaled[layer].forward = measured[k] * share, scaled[layer].backward_input = scaled[layer].backward_weight = 0;
    }
  }
  const auto best = partition(scaled, {.devices = static_cast<uint32_t>(measured.size()), .count_transfers = false});
  if (!best || slowest <= best->time * (1 + threshold)) return {};
  return *best;
}

}  // namespace troupe::ps
