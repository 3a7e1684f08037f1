#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/pipeline/composition.h>
#include <troupe/ps/pipeline/hardware.h>
#include <troupe/ps/pipeline/layer_profile.h>
#include <troupe/ps/pipeline/model_load.h>
#include <troupe/ps/pipeline/partition.h>
#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// What is planned, besides the composition.
struct PlanTask {
  ModelLoad model;
  Hardware hardware;
  std::optional<LayerProfile> measured;  ///< times of the layers, instead of the hardware's; a row a LayerLoad
  std::vector<int64_t> counts;           ///< layers of each chunk; empty: cut by time
  std::optional<Schedule> schedule;      ///< checked; instead of the one that the composition names
  /// The gradient of a stage's input leaves before its weights' gradients are made, as Troupe's stages send it.
  /// False: as the schedule says, which for those with fused backwards is what papers count with.
  bool gradients_first = false;
};

/// Of the device that needs most, in bytes.
struct MemoryPlan {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};

/// One part of the step's time, on the stage that has most to do.
struct TimeShare {
  std::string what;  ///< "arithmetic", "memory traffic", "bubble", ...
  double seconds = 0;
};

struct Plan {
  Composition composition;
  Partition cut;  ///< rows of the model's loads, by chunk
  MemoryPlan memory;
  uint32_t memory_stage = 0;  ///< the one that needs most
  bool fits = false;
  double step_s = 0;
  double bubble_of_ideal = 0, bubble_of_total = 0;  ///< of the schedule alone
  double bubble_s = 0;
  std::vector<double> busy;        ///< by stage: share of the schedule's time that it computes
  std::vector<TimeShare> shares;   ///< largest first; they add up to step_s
  double gradient_bytes = 0;       ///< of one device, that its replicas exchange
  double gradient_exchange_s = 0;  ///< whole, whether hidden or not
  double transfer_bytes = 0;       ///< of one micro-batch between stages, one way, at most
  double transfer_s = 0;
  double samples_per_s = 0;
  double tflops_a_device = 0;  ///< with what recomputation adds

  /// "memory", or the largest share.
  const std::string& limit() const;
};

/// Predicts one step. Time of a pass over a layer: its FLOPs at the hardware's efficiency, plus its activations once
/// written and once read at the speed of memory, plus what a tensor group exchanges; measured times replace these. The
/// schedule is the one that would run, timed by `simulate`: gradients are exchanged as soon as a chunk has them.
/// Memory: 16 bytes a parameter (Adam; mixed precision or fp32) as ZeRO shards them (arXiv 1910.02054), and the
/// schedule's peak of activations. An `invalid` error for a composition that cannot be: more chunks than layers,
/// heads that do not divide, a schedule's own conditions.
Result<Plan> plan(const PlanTask& task, const Composition& composition);
/// The same; where it does not fit, without the times, which cost most of the work.
Result<Plan> plan_if_it_fits(const PlanTask& task, const Composition& composition);

}  // namespace troupe::ps
