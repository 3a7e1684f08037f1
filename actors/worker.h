#pragma once
#include <chrono>
#include <memory>

#include <troupe/actors/cluster_parts.h>
#include <troupe/actors/mail.h>
#include <troupe/actors/reducer.h>
#include <troupe/actors/stage.h>
#include <troupe/kernels/base/trace.h>
#include <troupe/ps/data/sampler.h>

namespace troupe {

struct WorkerParts {
  ps::WorkerOptions options;
  std::shared_ptr<GradientSource> source;       ///< used by `compute` alone; of a stage, for its layers only
  std::shared_ptr<Executor> compute;
  std::function<std::shared_ptr<Reducer>()> make_reducer;  ///< called when the first all_reduce layer comes
  std::shared_ptr<ps::Transport> transport;
  ps::Sampler sampler{1, 0};
  uint64_t seed = 1;
  SlowDown slow_down;
  std::chrono::milliseconds retry_interval{0};  ///< 0: never
  /// Set where the worker is one stage of its replica: what computes then. What it has in common with a worker is
  /// filled in.
  std::optional<StageParts> stage;
  Track actor_track, compute_track;             ///< rows of the trace; empty: nothing is recorded
};

/// Runs one replica, or one stage of it: what to do next is WorkerCore's decision, the computing is its executors'.
WorkerActor spawn_worker(caf::actor_system& system, WorkerParts parts);

}  // namespace troupe
