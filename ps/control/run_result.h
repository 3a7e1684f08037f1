#pragma once
#include <string>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/metrics/lost_range.h>

namespace troupe::ps {

/// One training step, or under asynchronous policies as many pieces of work as make one global batch.
struct StepReport {
  Step step = 0;          ///< counted over the whole run, resumed parts included
  int64_t epoch = 0;
  StepStats stats;        ///< sums over the step's samples
  double compute_s = 0;   ///< of all workers
  double wait_s = 0;
  int64_t max_lag = 0;    ///< steps
  std::string non_finite; ///< "worker 2: layer fc1" where a gradient was not finite
  double loss_scale = 1;  ///< by which the loss was multiplied on the way back
};

struct EvaluationReport {
  Step step = 0;
  int64_t epoch = 0;      ///< epochs completed
  StepStats stats;
};

struct WorkerReport {
  int64_t pieces = 0;     ///< of training work completed
  int64_t samples = 0;
  double compute_s = 0, wait_s = 0;
  int64_t pushed_bytes = 0, pulled_bytes = 0;
};

enum class Outcome : uint8_t { completed, interrupted, failed };

/// What a run was, once it is over.
struct RunResult {
  Outcome outcome = Outcome::completed;
  std::string failure;                  ///< the first cause, a paragraph
  Step steps = 0;
  int64_t samples = 0;                  ///< trained on by this run
  StepStats last_epoch;                 ///< training loss and accuracy over the last epoch's samples
  EvaluationReport evaluation;          ///< the last one; no samples where there was none
  std::vector<WorkerReport> workers;
  std::vector<LayerCounters> layers;    ///< summed over servers, one a layer
  int64_t duplicates_dropped = 0, refused = 0, skipped_steps = 0;
  int64_t worker_restarts = 0, server_restarts = 0, workers_dropped = 0;
  int64_t checkpoints_written = 0, checkpoints_failed = 0;
  bool superseded = false;              ///< another process coordinates the run now: its folder is no more this one's
  double loss_scale = 1;                ///< at the end
  std::vector<LostRange> lost;          ///< in the order of the losses
  std::shared_ptr<const Layout> layout;
};

}  // namespace troupe::ps
