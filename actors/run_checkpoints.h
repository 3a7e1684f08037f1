#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/cluster_parts.h>
#include <troupe/ps/checkpoint/checkpoint_store.h>
#include <troupe/ps/metrics/log.h>

namespace troupe {

/// Checkpoints of a run while it lasts: what its coordinator hands over is written, what a server lost is read, and
/// both are logged. `save` and `load` come from the queue of checkpoints; the rest from any thread.
class RunCheckpoints {
 public:
  struct Options {
    std::shared_ptr<const ps::Optimizer> optimizer;
    std::vector<LayerSpec> layers;
    ps::Shard::InitialState initial;  ///< what the run began with, at `first_step`
    ps::Step first_step = 0;
    std::string begun_from;           ///< folder of the checkpoint that it went on from; empty: it began anew
    double seconds_before = 0;        ///< that training had taken then
  };
  /// `log` outlives it.
  RunCheckpoints(ps::CheckpointStore store, Options options, ps::Log& log)
      : store_(std::move(store)), options_(std::move(options)), log_(log) {}

  void begin(std::chrono::steady_clock::time_point now) { begun_ = now; }

  Status save(const ps::CheckpointRequest& request);
  /// A damaged checkpoint is passed over for an older one; where all are damaged it is an error, so that the run ends
  /// rather than begins anew.
  Result<ps::Reload> load(const ps::ReloadRequest& request);

  /// Why the last checkpoint was not written; empty: it was.
  std::string not_saved() const;

 private:
  ps::CheckpointStore store_;
  Options options_;
  ps::Log& log_;
  std::chrono::steady_clock::time_point begun_;
  mutable std::mutex mutex_;  // of what follows
  std::string not_saved_;
};

}  // namespace troupe
