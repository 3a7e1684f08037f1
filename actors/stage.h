#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/mail.h>
#include <troupe/kernels/base/trace.h>
#include <troupe/kernels/nn/stage_source.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/data/sampler.h>

namespace troupe {

/// What a worker needs to be one stage of a pipeline instead of a whole replica.
struct StageParts {
  ps::StageOptions options;
  std::shared_ptr<StageSource> source;  ///< used by `compute` alone; its parts are the stage's chunks, ascending
  std::shared_ptr<Executor> compute;
  ps::Sampler sampler{1, 0};
  uint64_t seed = 1;
  bool measure_norm = false;
  SlowDown slow_down;
  Track track;                           ///< what `compute` does, an event an action
  std::function<void(TaskDone)> report;  ///< into the worker's mailbox, from the executor's thread
};

/// What a worker actor has in place of a source of whole gradients when it is a stage: StageCore decides, the executor
/// computes, and what both say reaches the worker as the answers of its own tasks (GradientDone, BackwardDone,
/// EvaluateDone), so that everything else of a worker is the same. Called on the actor's thread alone.
class Stage {
 public:
  explicit Stage(StageParts parts);

  void obey(const ps::Membership& membership, ps::Generation generation);
  /// Runs the work; answered with GradientDone a layer and BackwardDone, or EvaluateDone.
  ps::Outbox begin(const ps::Work& work, std::vector<Tensor> weights);
  /// An Activation or ActivationAck.
  ps::Outbox handle(const ps::Envelope& envelope);
  ps::Outbox done(const StageTaskDone& task);
  ps::Outbox done(const StageSum& sum);
  /// Says again what has not been acknowledged.
  ps::Outbox tick() const;
  /// A Fault when a neighbour has been waited for too long.
  ps::Outbox watch(int64_t now_ms);

 private:
  using Clock = std::chrono::steady_clock;
  struct Computer;

  /// A piece of work under way, by its number.
  struct Run {
    ps::Work work;
    std::shared_ptr<const std::vector<Tensor>> weights;
    StepStats stats;
    double compute_s = 0;
  };

  ps::Outbox carry(ps::StageCore::Effects effects);
  void submit(ps::StageTask task);
  void submit(ps::StageCore::Gradient gradient);
  void submit_end(const ps::Work& work);

  StageParts parts_;
  ps::StageCore core_;
  std::shared_ptr<Computer> computer_;
  std::map<uint64_t, Run> runs_;
  Clock::time_point idle_since_ = Clock::now();
};

/// Whether it is for the stage, not for the worker.
bool for_stage(const ps::Envelope& envelope);

}  // namespace troupe
