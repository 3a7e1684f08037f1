#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>

/// A pipeline schedule is data: pure functions return it, stage actors run it, the simulator times it.
///
/// The model is cut into `chunks` consecutive pieces; chunk c feeds chunk c+1. Every chunk lies on one of `stages`
/// stages. A step takes `micro_batches` micro-batches through all chunks, forward and back. 1F1B on 2 stages, 3
/// micro-batches (F forward, I gradient of the input, W of the weights; a column is no unit of time):
///
///     stage 0   F0 F1 I0 W0 F2 I1 W1 I2 W2 | all-reduce, step
///     stage 1   F0 I0 W0 F1 I1 W1 F2 I2 W2 | all-reduce, step
namespace troupe::ps {

enum class ActionKind : uint8_t {
  forward,
  backward_input,   ///< gradient of the chunk's input; on the last chunk from the loss
  backward_weight,  ///< gradient of its weights, any time after backward_input
  send_activation,  ///< to the stage of chunk + 1
  receive_activation,
  send_gradient,  ///< to the stage of chunk - 1
  receive_gradient,
  all_reduce,  ///< of the chunk's weight gradients among replicas, or their push to the servers
  step,        ///< the chunk's weights are updated with what was accumulated since its last step
};

struct Action {
  ActionKind kind = ActionKind::forward;
  uint32_t micro_batch = 0;  ///< all_reduce, step: the last one that is in the sum
  uint32_t chunk = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

/// Which weights a forward and its backward use.
enum class WeightVersions : uint8_t {
  flushed,      ///< those of the step's begin: the gradient of one device
  stashed,      ///< PipeDream: the newest on that stage at the forward; a copy is kept until the backward
  two_buffers,  ///< PipeDream-2BW: those of one step earlier; never more than two copies
};

struct Schedule {
  std::string name;
  uint32_t stages = 1, chunks = 1, micro_batches = 1;
  std::vector<uint32_t> stage_of;  ///< by chunk
  /// By stage, in order: forward, backward_input, backward_weight, all_reduce, step. Sends and receives follow from
  /// these: `with_transfers`.
  std::vector<std::vector<Action>> actions;
  /// backward_weight follows its backward_input at once and only then the gradient is sent on, as frameworks whose
  /// backward is one call do it. False: it is sent after backward_input.
  bool fused_backward = true;
  WeightVersions weights = WeightVersions::flushed;
};

struct ScheduleOptions {
  std::string name = "1f1b";
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1;      ///< a stage: interleaved takes any number, zb-v 2, the others 1
  uint32_t accumulate = 0;  ///< pipedream-2bw: micro-batches a step, at least `stages`; 0: as many
};

/// sequential     one micro-batch at a time, no overlap: the base line
/// gpipe          all forward, then all backward (arXiv 1811.06965)
/// 1f1b           PipeDream-Flush (arXiv 2104.04473, section 2.2)
/// interleaved    1F1B over `chunks` chunks a stage, chunk c on stage c mod stages (the same); micro_batches mod
///                stages = 0
/// zb-h1, zb-h2   weight gradients fill the bubble, with 1F1B's memory or up to twice that (arXiv 2401.10241)
/// zb-v           two chunks a stage laid out as a V, no bubble at equal times (the same, section 6)
/// pipedream      1F1B without flush, a step a micro-batch, stashed weights (arXiv 1806.03377)
/// pipedream-2bw  without flush, a step every `accumulate` micro-batches, two weight buffers (arXiv 2006.09503)
///
/// `invalid` errors: an unknown name, a zero, what does not divide. Cost: proportional to the number of actions.
Result<Schedule> make_schedule(const ScheduleOptions& options);
const std::vector<std::string>& schedule_names();

/// The stage's whole list: `actions` with every receive right before what reads it and every send right after what
/// makes it. Between chunks on the same stage nothing is sent.
std::vector<Action> with_transfers(const Schedule& schedule, uint32_t stage);

/// By micro-batch: how many steps the weights have behind them with which `chunk` runs it forward and back.
std::vector<uint32_t> weight_versions(const Schedule& schedule, uint32_t chunk);
/// What a run of an asynchronous schedule computes, whoever is fast: a step is one update of every stage. Version v of
/// a stage's weights has v steps behind it. On stage s step t goes forward and back with version
///
///   max(t - weight_lag(s), since)        `since`: the newest step up to t that began with nothing under way
///
/// and its gradient there makes version t + 1 of version t. The lag is stages - 1 - s for PipeDream, where a step is a
/// micro-batch, and 1 for PipeDream-2BW, where it is all micro-batches of a batch; 0 where steps are flushed.
uint32_t weight_lag(const Schedule& schedule, uint32_t stage);
/// How many versions of its weights the chunk holds at most at a time; 1 where steps are flushed.
uint32_t weight_copies(const Schedule& schedule, uint32_t chunk);

/// "F3", "I3", "W3", "R3" (all_reduce), "S3" (step), "sendF3", "recvI3"; with more chunks than stages "F3.1", where 1
/// is the chunk.
std::string action_text(const Schedule& schedule, const Action& action);

}  // namespace troupe::ps
