#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/recovery.h>
#include <troupe/actors/run.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/metrics/log.h>
#include <troupe/ps/metrics/progress.h>
#include <troupe/ps/metrics/summary.h>

namespace troupe {

struct ExperimentOptions {
  std::string run_dir;            ///< empty: `parent`/NAME-STAMP
  std::string parent = "runs";
  std::string stamp;              ///< the time, for the folder's name: "20261130-112906"
  std::string resume;             ///< a run's folder, to go on in from its newest valid checkpoint
  std::string replay;             ///< the folder of a recorded run, to be repeated bit for bit in a new one
  /// Several processes make up the run, of which this one coordinates and has no workers or servers itself.
  struct Spread {
    int64_t nodes = 1;                           ///< that the run begins with
    uint64_t run = 0;                            ///< its number, random
    ps::JournalHead::Network network;            ///< how a process that goes on in this one's place is reached
    std::shared_ptr<ps::Transport> transport;
    std::function<void(const ps::Routes&)> set_routes;
  };
  std::optional<Spread> spread;
  /// Goes on as the coordinator of a run of several processes, which another process was: in its folder, with its
  /// config, number and nodes (Recovery::head).
  std::optional<Recovery> recovery;

  /// Asked before the run folder is made; true ends `prepare` with ErrorKind::cancelled.
  std::function<bool()> cancelled;

  /// Hear of what happens; called on the run's threads, one call at a time.
  std::function<void(const ps::Progress&, bool last)> progress;
  ps::Log::Listener log;
};

/// A run as a configuration describes it, in one process or as the coordinator of several: data, model, optimizer, run
/// folder, checkpoints, metrics, recording, summary.
class Experiment {
 public:
  /// Everything that can be wrong is found here, before a run folder is made: the data set is read, the model
  /// built, the checkpoint to resume from found. Where an error is returned nothing was begun and no folder is left.
  static Result<std::unique_ptr<Experiment>> prepare(const ps::LoadedConfig& config, ExperimentOptions options);
  ~Experiment();

  /// Layer by layer: policy, size, servers, bytes a step.
  std::string layer_table() const;
  /// Steps that are done already: not 0 for a resumed run.
  ps::Step first_step() const;
  /// Of this run, once prepared.
  const std::string& folder() const;

  /// Trains, and writes the summary. An error is one of starting, which leaves no folder; a run that began and
  /// failed is a summary.
  Result<ps::RunSummary> run();
  /// Ends the run at the next step boundary, with a checkpoint. Thread-safe.
  void stop();
  /// The transport lost its connection to a node's process. Thread-safe.
  void link_lost(uint32_t node);

 private:
  struct Impl;
  explicit Experiment(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
