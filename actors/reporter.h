#pragma once
#include <chrono>
#include <functional>
#include <optional>

#include <troupe/actors/cluster_parts.h>
#include <troupe/ps/metrics/histogram.h>
#include <troupe/ps/metrics/log.h>
#include <troupe/ps/metrics/metrics_writer.h>
#include <troupe/ps/metrics/progress.h>

namespace troupe {

/// What a resumed run has behind it.
struct Before {
  ps::Step steps = 0;
  int64_t samples = 0;
  double seconds = 0;
};

/// Metrics, log and progress of a run, from what its coordinator reports, on the coordinator's thread.
class Reporter final : public RunObserver {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    int64_t every_steps = 1;           ///< a row of metrics after so many
    int64_t epochs = 0;
    ps::OptimizerOptions optimizer;    ///< for the learning rate that a row shows
    Before before;
    ps::Step total_steps = 0;
    std::function<void(const ps::Progress&, bool last)> progress;  ///< may be empty
  };
  /// `log` outlives the reporter.
  Reporter(Options options, ps::MetricsWriter metrics, ps::Log& log);

  void begin(Clock::time_point now) { begin_ = window_begin_ = now; }

  void on_step(const ps::StepReport& report) override;
  void on_evaluation(const ps::EvaluationReport& report) override;
  void on_event(const std::string& event) override;
  void on_news(const std::string& piece) override;
  void on_finished(const ps::RunResult& result) override;

  double seconds() const { return seconds_; }
  int64_t lines_lost() const { return metrics_.failures(); }

 private:
  void write_row(const std::optional<ps::EvaluationReport>& evaluation);

  Options options_;
  ps::MetricsWriter metrics_;
  ps::Log& log_;
  Clock::time_point begin_, window_begin_;
  double seconds_ = 0;
  int64_t samples_ = 0;
  ps::StepReport window_;  ///< since the last row
  int64_t window_steps_ = 0, window_skipped_ = 0;
  ps::Histogram lag_;
  ps::Progress progress_;
};

}  // namespace troupe
