#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/blueprint.h>
#include <troupe/actors/experiment.h>
#include <troupe/actors/reporter.h>
#include <troupe/actors/run_checkpoints.h>
#include <troupe/ps/metrics/run_folder.h>

namespace troupe {

/// All that an experiment holds, from the first look at its config to its summary.
struct Experiment::Impl {
  std::shared_ptr<const Blueprint> blueprint;
  ps::RunConfig told;                        ///< the config as every process of the run gets it
  ExperimentOptions options;
  std::vector<std::string> warnings, notes;  ///< for the log, a sentence each
  ps::Step total_steps = 0;
  bool nothing_left = false;                 ///< the run that is resumed has come to its end
  ClusterParts parts;
  std::string resumed_from;
  Before before;              ///< this process
  Before resumed;             ///< the checkpoint that the run went on from
  double seconds_before = 0;  ///< by processes that coordinated this run before this one
  std::shared_ptr<ps::RunLock> lock;
  std::shared_ptr<ps::JournalFolder> journal;
  std::optional<ps::RunFolder> folder;
  std::string folder_path;
  std::optional<ps::MetricsWriter> metrics;
  std::unique_ptr<ps::Log> log;
  std::unique_ptr<ps::Recorder> recorder;
  std::unique_ptr<RunCheckpoints> checkpoints;
  std::mutex mutex;  // of what follows
  std::unique_ptr<Run> run;
  bool stopped = false;

  const ps::RunConfig& config() const { return blueprint->config(); }
  const ps::Sources& sources() const { return blueprint->sources(); }

  // experiment_plan.cc: what the run is to do, and where it stands already.
  Status resume();
  Status read_recording();
  Status plan_steps();
  void spread();
  Status recover();

  // experiment_folder.cc: what it has on disk while it lasts.
  Status open_folder();
  void choose_folders();
  Status fill_folder();
  Status begin_journal();
  Status write_config();
  void keep_checkpoints();
  Status begin_recording();
  /// What a run that was over left in this folder stays as it is, however often it is resumed.
  bool is_over() const;

  // experiment.cc: the run itself.
  std::shared_ptr<Reporter> begin_reports();
  Result<ps::RunSummary> train();
  void conclude(ps::RunSummary& summary);
  void write_trace();
  void write_summary(const ps::RunSummary& summary);
};

}  // namespace troupe
