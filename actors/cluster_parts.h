#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/all_reducer.h>
#include <troupe/kernels/backend/backend.h>
#include <troupe/kernels/base/trace.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/nn/stage_source.h>
#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/control/journal.h>
#include <troupe/ps/control/recording.h>
#include <troupe/ps/control/stage_core.h>
#include <troupe/ps/param/optimizer.h>
#include <troupe/ps/param/shard.h>
#include <troupe/ps/transport/transport.h>

namespace troupe {

class Reducer;

/// Hears what happens in a run, on the coordinator's thread: be quick.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_step(const ps::StepReport&) {}
  virtual void on_evaluation(const ps::EvaluationReport&) {}
  virtual void on_event(const std::string&) {}  ///< a sentence for the log: what somebody may have to look at
  virtual void on_news(const std::string& piece) { on_event(piece); }  ///< and one of what went as it should
  virtual void on_finished(const ps::RunResult&) {}
};

/// Makes one worker slow, to see what each policy does about it.
struct SlowDown {
  double factor = 1;                    ///< its steps take this many times as long
  std::chrono::microseconds extra{0};   ///< and this much longer
};

/// Devices of workers or of servers. Workers compute on them, each on its own, and that is where all_reduce layers are
/// summed and updated: a worker's source then takes weights on its device, too, and leaves the gradients of those
/// layers there, as nn::ModelSource does. Servers hold parameters and optimizer state on them
/// (ps/param/shard_device.h).
struct DeviceParts {
  std::shared_ptr<Backend> backend;                   ///< that has ops::UpdateOps
  std::function<Result<int>(uint32_t)> seat;          ///< which device a worker's source, or a server, is on
  ps::OptimizerOptions optimizer;                     ///< what ClusterParts::optimizer was made of
};

/// Everything a run is made of and touches. Whoever embeds Troupe replaces what they have their own of; what
/// is left empty gets the default in brackets.
struct ClusterParts {
  ps::CoordinatorOptions coordinator;

  /// One source of gradients a worker; called on the thread that makes the worker, again after a restart. All
  /// must have `coordinator.layers`.
  std::function<std::unique_ptr<GradientSource>(ps::WorkerId)> source;
  /// Where `coordinator.layout.stages` workers make up a replica: what each of them computes instead, and the schedule
  /// that they run (`self` and `coordinator` are filled in). `source` then only says what layers there are.
  std::function<std::unique_ptr<StageSource>(ps::WorkerId)> stage_source;
  ps::StageOptions stage;

  std::shared_ptr<const ps::Optimizer> optimizer;
  ps::ImmediateScale immediate_scale = ps::ImmediateScale::samples;
  /// First parameters and optimizer state: from an initialiser or a checkpoint. See initial_from().
  ps::Shard::InitialState initial;

  uint64_t seed = 1;
  bool shuffle = true;
  std::function<SlowDown(ps::WorkerId)> slow_down;

  /// Queues for long work. `use` is "compute", "reduce", "collective", "log", "shard" or "checkpoint"; they finish
  /// as make_actor_queue's do. [a thread of its own each]
  std::function<std::shared_ptr<Executor>(const ps::Endpoint&, const char* use)> executor;
  int threads_per_worker = 1;           ///< of the default compute queues
  /// What sums the gradients of all_reduce layers where every worker holds a copy of its own in host memory.
  /// [`devices`, where there are some, else a LocalGroup, which holds one copy for all]
  std::function<std::unique_ptr<AllReducer>(ps::WorkerId)> all_reducer;
  std::optional<DeviceParts> devices;   ///< [workers compute on the CPU]
  std::optional<DeviceParts> server_devices;  ///< [servers' parameters and optimizer state lie in host memory]
  bool wants_devices = false;           ///< other workers of the run may have some
  /// A worker's end of what adds up on its host, where the run lives in several processes (Reducer::join_group). [the
  /// group of `devices`]
  std::function<std::shared_ptr<Reducer>(const ps::Endpoint&)> host_reducer;
  bool spread = false;                  ///< the run lives in several processes
  int64_t bucket_bytes = 1 << 20;       ///< of all_reduce layers that are reduced together (ps/param/buckets.h)
  int reduce_threads = 0;               ///< of the LocalGroup, that reduce while workers compute
  std::function<std::shared_ptr<ps::ShardStore>(ps::ServerId)> store;  ///< [keeps nothing]
  std::function<Status(const ps::CheckpointRequest&)> write_checkpoint;  ///< [none is written]
  /// Of the newest checkpoint, for a server to come; called where checkpoints are written. [`initial`]
  std::function<Result<ps::Reload>(const ps::ReloadRequest&)> read_checkpoint;
  std::shared_ptr<ps::Transport> transport;                              ///< [inside the process]
  /// Where `coordinator.roster.nodes` processes make up the run: tells the transport who is where.
  std::function<void(const ps::Routes&)> set_routes;
  /// How often is said again what was not answered; 0: never. [0 on a reliable transport, else 200 ms]
  std::chrono::milliseconds retry_interval{0};
  std::shared_ptr<RunObserver> observer;
  std::shared_ptr<Trace> trace;  ///< what workers and servers did when [nothing is recorded]

  /// Where what the coordinator is told is kept, so that another process can go on in its place. [nowhere]
  std::shared_ptr<ps::Journal> journal;
  /// A core that was told what a journal holds: the coordinator goes on from there. [one made of `coordinator`]
  std::shared_ptr<ps::CoordinatorCore> recovered;

  /// Asked when the coordinator has ended before its run: whether another will go on (Cluster::replace_coordinator).
  /// [no: the run has failed]
  std::function<bool(const std::string& why)> coordinator_ended;

  /// A recorded run to be repeated bit for bit, and where this one is recorded. Called on actors' threads.
  std::optional<ps::Recording> replay;
  std::function<void(const ps::CoordinatorCore::Dealt&)> record_dealt;
  std::function<void(ps::ServerId, const ps::Shard::Event&)> record_event;
};

/// Initial state by asking `source` for a layer's first parameters; optimizer state is zero.
ps::Shard::InitialState initial_from(std::shared_ptr<GradientSource> source, const ps::Optimizer& optimizer,
                                     uint64_t seed);
/// The answer to `request` while there is no checkpoint: what the run began with, at step `start`.
ps::Reload first_parameters(const ps::ReloadRequest& request, const ps::Shard::InitialState& initial, ps::Step start);

}  // namespace troupe
