#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/metrics/histogram.h>
#include <troupe/ps/metrics/lost_range.h>

namespace troupe::ps {

/// One layer over the whole run, all servers together.
struct LayerSummary {
  std::string name;
  std::string policy;  ///< "ssp(2)"
  int64_t parameters = 0;
  int64_t shards = 0;      ///< servers that hold some of it
  int64_t step_bytes = 0;  ///< that a step moves: all workers' gradients one way, weights (or sums) the other
  int64_t pushes = 0, updates = 0;
  int64_t pushed_bytes = 0, pulled_bytes = 0;
  Histogram staleness;  ///< of reads, steps behind
  Histogram delay;      ///< of immediate pushes, updates between their read and them
};

struct WorkerSummary {
  int64_t worker = 0;
  int64_t samples = 0, steps = 0;
  double compute_s = 0, wait_s = 0;
};

/// What a run came to: summary.json, and the table at its end.
struct RunSummary {
  std::string name;
  std::string outcome = "finished";  ///< finished | interrupted | failed
  int exit_code = 0;
  std::string error;  ///< the first cause, where it failed or what it was for could not be saved
  std::optional<double> test_accuracy, test_loss;
  std::optional<double> train_loss;  ///< mean over the last epoch's samples
  int64_t steps = 0, samples = 0;  ///< since the run began, before a resume too
  double seconds = 0;              ///< of training, without start-up, before a resume too
  double samples_per_second = 0;   ///< since it was resumed, as the counts of layers and workers below
  int64_t skipped_steps = 0;  ///< for non-finite gradients
  double loss_scale = 1;      ///< at the end
  int64_t restarts = 0;       ///< workers and servers replaced
  int64_t checkpoints_written = 0, checkpoints_failed = 0;
  int64_t duplicates_dropped = 0, refused = 0;
  int64_t lines_lost = 0;  ///< of metrics and log, to a full disk
  std::vector<LayerSummary> layers;
  std::vector<WorkerSummary> workers;
  std::vector<LostRange> lost;  ///< with servers that went on from a checkpoint
};

/// One JSON object, indented. Numbers that are not there, or not finite, are null.
std::string summary_json(const RunSummary& summary);

/// The layers and their policies, before a run starts.
std::string layer_table(const std::vector<LayerSummary>& layers);

/// The whole summary for a terminal: layers, workers, and the result last.
std::string summary_text(const RunSummary& summary);

}  // namespace troupe::ps
