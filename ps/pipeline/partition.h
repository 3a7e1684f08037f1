#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/pipeline/layer_profile.h>

namespace troupe::ps {

/// Layers [first, last) on `replicas` devices, each of which takes its share of the micro-batches.
struct StageRange {
  size_t first = 0, last = 0;
  uint32_t replicas = 1;
  double time = 0;  ///< seconds a micro-batch
  friend bool operator==(const StageRange&, const StageRange&) = default;
};

/// Stages without gaps, none empty, from the first layer to the last.
struct Partition {
  std::vector<StageRange> stages;
  double time = 0;  ///< of the slowest stage, or transfer: what a micro-batch costs in the steady state
};

struct PartitionOptions {
  uint32_t devices = 1;
  /// False: one device a stage, as many stages as devices. True: stages may be replicated, and their number is free.
  bool replicate = false;
  double bytes_per_s = 1e9;  ///< between any two devices
  /// Whether a stage boundary costs 2 output_bytes / bytes_per_s, at most one at a time with everything else. False: it
  /// is hidden behind the computation.
  bool count_transfers = true;
};

/// The partition with the shortest time, by dynamic programming (arXiv 1806.03377, section 3.2):
///   T(i..j, r) = (time of i..j + 4 (r-1)/r parameter_bytes / bytes_per_s) / r
///   A(j, d)    = min over i, r of max(A(i, d-r), transfer between i and i+1, T(i+1..j, r))
/// The factor 1/r of the synchronisation is in the authors' program, and makes their figures; the paper's text leaves
/// it out. Of equals, the one with the earliest last cut. Cost: O(layers^2 devices^2), without replication one power of
/// devices less. More stages than layers is an `invalid` error.
Result<Partition> partition(std::span<const LayerCost> layers, const PartitionOptions& options);

/// The partition whose stages have `counts` layers each. The errors name the entry that makes a stage empty or ends
/// beyond the model.
Result<Partition> partition_by_counts(std::span<const LayerCost> layers, std::span<const int64_t> counts,
                                      const PartitionOptions& options);

/// How many of the model's layers each stage has: what parallel.cuts takes.
std::vector<int64_t> layer_counts(std::span<const LayerCost> layers, const Partition& partition);

/// A better partition than `current`, when `measured` (seconds a micro-batch, by stage) says that the slowest stage
/// takes more than 1 + `threshold` times what it would in that better one. Layer times are scaled so that each
/// stage's sum is the measured one. For runs without replicated stages.
std::optional<Partition> better_partition(std::span<const LayerCost> layers, const Partition& current,
                                          std::span<const double> measured, double threshold);

}  // namespace troupe::ps
