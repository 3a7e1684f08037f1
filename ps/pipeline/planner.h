#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/pipeline/hardware.h>
#include <troupe/ps/pipeline/layer_profile.h>
#include <troupe/ps/pipeline/model_load.h>
#include <troupe/ps/pipeline/partition.h>
#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// Which activations are made again in the backward pass instead of kept.
enum class Recompute : uint8_t { none, selective /* those of attention */, full /* all within a layer */ };

/// How a step is spread over devices: replicas x stages x tensor.
struct Composition {
  uint32_t replicas = 1, stages = 1;
  uint32_t tensor = 1;  ///< devices that share every matrix product
  uint32_t chunks = 1;  ///< of the model, a stage
  std::string schedule = "1f1b";
  int64_t micro_batch = 1;     ///< samples
  uint32_t micro_batches = 1;  ///< a step, of each replica
  uint32_t zero = 0;           ///< 1: optimizer state, 2: gradients too, 3: parameters too are sharded among replicas
  Recompute recompute = Recompute::none;
  bool sequence_parallel = false;  ///< the tensor group shares what it would otherwise all hold

  uint64_t devices() const { return uint64_t{replicas} * stages * tensor; }
};

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

/// Bytes a parameter in mixed precision: 16; 4 + 12/N; 2 + 14/N; 16/N.
double state_bytes(uint32_t zero, double replicas);
/// Activations of `samples` that a device keeps of a layer from forward to backward.
double kept_bytes(const LayerLoad& layer, double samples, const Composition& composition);

/// "16 x 8 x 8, interleaved with 2 chunks, 128 micro-batches of 1, full recomputation, ZeRO-1"
std::string composition_text(const Composition& composition);

}  // namespace troupe::ps
