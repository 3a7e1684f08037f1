#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/metrics/line_file.h>

namespace troupe::ps {

/// How a run stands at one step; averages and skipped steps are over the steps since the last row.
struct MetricsRow {
  double time_s = 0;                               ///< since the run began
  int64_t step = 0;                                ///< steps done
  int64_t epoch = 0;                               ///< from 0
  double loss = 0;                                 ///< mean over the samples
  std::optional<double> accuracy;                  ///< on the training samples, before their update
  std::optional<double> test_loss, test_accuracy;  ///< where this row ends an evaluation
  int64_t samples = 0;                             ///< since the run began
  double samples_per_second = 0;
  double learning_rate = 0;
  int64_t staleness_p50 = 0, staleness_p95 = 0, staleness_max = 0;  ///< steps
  double wait_share = 0;                                            ///< of the workers' time, waiting for weights
  double loss_scale = 1;                                            ///< of the last step
  int64_t skipped_steps = 0;                                        ///< for gradients that are not finite
};

/// metrics.csv and metrics.jsonl: a row is one line in each, on disk when `write` returns. A full disk costs
/// rows, never the run. One thread at a time.
class MetricsWriter {
 public:
  /// An empty path writes no such file. A file that is there already is continued (a resumed run).
  static Result<MetricsWriter> open(const std::string& csv_path, const std::string& jsonl_path);

  void write(const MetricsRow& row);
  /// Lines that could not be written.
  int64_t failures() const;

 private:
  std::optional<LineFile> csv_, jsonl_;
};

}  // namespace troupe::ps
