#include <troupe/actors/reporter.h>

#include <algorithm>
#include <cmath>

#include <troupe/ps/param/optimizer.h>

namespace troupe {
namespace {

double seconds_since(Reporter::Clock::time_point begin) {
  return std::chrono::duration<double>(Reporter::Clock::now() - begin).count();
}

}  // namespace

Reporter::Reporter(Options options, ps::MetricsWriter metrics, ps::Log& log)
    : options_(std::move(options)), metrics_(std::move(metrics)), log_(log) {
  progress_.step = window_.step = options_.before.steps;
  progress_.total_steps = options_.total_steps;
  progress_.epochs = options_.epochs;
}

void Reporter::on_step(const ps::StepReport& r) {
  samples_ += r.stats.samples;
  window_.stats.loss_sum += r.stats.loss_sum;
  window_.stats.correct += r.stats.correct;
  window_.stats.samples += r.stats.samples;
  window_.compute_s += r.compute_s;
  window_.wait_s += r.wait_s;
  window_.step = r.step;
  window_.epoch = r.epoch;
  window_.loss_scale = r.loss_scale;
  window_skipped_ += !r.non_finite.empty();
  lag_.add(r.max_lag);
  if (++window_steps_ >= options_.every_steps) write_row({});
  progress_.step = r.step;
  progress_.total_steps = std::max(progress_.total_steps, r.step);
  progress_.epoch = r.epoch;
  const double samples = static_cast<double>(std::max<int64_t>(r.stats.samples, 1));
  const double loss = r.stats.loss_sum / samples;
  progress_.loss = progress_.loss == 0 ? loss : 0.95 * progress_.loss + 0.05 * loss;
  progress_.samples_per_second = static_cast<double>(samples_) / seconds_since(begin_);
  progress_.staleness_max = r.max_lag;
  progress_.loss_scale = r.loss_scale;
  if (options_.progress) options_.progress(progress_, false);
}

void Reporter::on_evaluation(const ps::EvaluationReport& r) {
  write_row(r);
  progress_.test_accuracy = static_cast<double>(r.stats.correct) / static_cast<double>(r.stats.samples);
  log_.write(ps::LogLevel::info, "coordinator",
             cat("after step ", r.step, ": test accuracy ", *progress_.test_accuracy, ", test loss ",
                 r.stats.loss_sum / static_cast<double>(r.stats.samples)));
}

void Reporter::on_event(const std::string& event) { log_.write(ps::LogLevel::warning, "coordinator", event); }

void Reporter::on_news(const std::string& piece) { log_.write(ps::LogLevel::info, "coordinator", piece); }

void Reporter::on_finished(const ps::RunResult& result) {
  seconds_ = seconds_since(begin_);
  // On demand the number of steps depends on who asks when.
  if (result.outcome == ps::Outcome::completed) progress_.total_steps = progress_.step;
  if (window_steps_ > 0 && !result.superseded) write_row({});
  if (options_.progress) options_.progress(progress_, true);
}

void Reporter::write_row(const std::optional<ps::EvaluationReport>& evaluation) {
  const double window_s = seconds_since(window_begin_);
  const double samples = static_cast<double>(window_.stats.samples);
  ps::MetricsRow row;
  row.time_s = options_.before.seconds + seconds_since(begin_);
  row.step = window_.step;
  row.epoch = window_.epoch;
  row.loss = samples > 0 ? window_.stats.loss_sum / samples : std::nan("");
  if (samples > 0) row.accuracy = static_cast<double>(window_.stats.correct) / samples;
  if (evaluation && evaluation->stats.samples > 0) {
    const double tests = static_cast<double>(evaluation->stats.samples);
    row.test_loss = evaluation->stats.loss_sum / tests;
    row.test_accuracy = static_cast<double>(evaluation->stats.correct) / tests;
  }
  row.samples = options_.before.samples + samples_;
  row.samples_per_second = samples / window_s;
  row.learning_rate = ps::learning_rate(options_.optimizer, std::max<ps::Step>(window_.step - 1, 0));
  row.staleness_p50 = lag_.percentile(0.5);
  row.staleness_p95 = lag_.percentile(0.95);
  row.staleness_max = lag_.max();
  const double worked = window_.compute_s + window_.wait_s;
  row.wait_share = worked > 0 ? window_.wait_s / worked : 0;
  row.loss_scale = window_.loss_scale;
  row.skipped_steps = window_skipped_;
  metrics_.write(row);
  const ps::StepReport last = window_;
  window_ = {};
  window_.step = last.step;
  window_.epoch = last.epoch;
  window_.loss_scale = last.loss_scale;
  window_steps_ = window_skipped_ = 0;
  window_begin_ = Clock::now();
  lag_ = ps::Histogram();
}

}  // namespace troupe
