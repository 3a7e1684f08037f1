#include <troupe/actors/experiment.h>

#include <chrono>
#include <mutex>

#include <troupe/actors/internal/experiment_impl.h>
#include <troupe/kernels/base/check.h>
#include <troupe/ps/checkpoint/file_ops.h>
#include <troupe/ps/metrics/summarize.h>
#include <troupe/ps/metrics/trace_file.h>

namespace troupe {

Experiment::Experiment(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Experiment::~Experiment() = default;

Result<std::unique_ptr<Experiment>> Experiment::prepare(const ps::LoadedConfig& config, ExperimentOptions options) {
  auto blueprint = Blueprint::make(config, options.spread.has_value());
  if (!blueprint) return tl::unexpected<Error>(blueprint.error());
  auto impl = std::make_unique<Impl>();
  impl->blueprint = std::move(*blueprint);
  impl->options = std::move(options);
  impl->parts = impl->blueprint->parts();
  if (const std::string& note = impl->blueprint->device_note(); !note.empty()) impl->notes.push_back(note);
  TROUPE_TRY(impl->resume());
  TROUPE_TRY(impl->read_recording());
  TROUPE_TRY(impl->plan_steps());
  impl->spread();
  TROUPE_TRY(impl->recover());
  if (const Status page = impl->open_page(); !page) {
    // A run that goes on may do so on another machine, and its config cannot be changed.
    if (!impl->options.recovery) return tl::unexpected<Error>(page.error());
    impl->warnings.push_back("metrics are not served: " + page.error().message);
  }
  if (impl->options.cancelled && impl->options.cancelled())
    return fail(ErrorKind::cancelled, "interrupted before the run began");
  TROUPE_TRY(impl->open_folder());
  return std::unique_ptr<Experiment>(new Experiment(std::move(impl)));
}

std::string Experiment::layer_table() const {
  const ps::CoordinatorOptions& c = impl_->parts.coordinator;
  const ps::Layout layout = ps::make_layout(c.layers, c.policies, c.layout);
  return ps::layer_table(ps::layers_of(layout, impl_->config().parallel.replicas())) + ps::server_line(layout) +
         ps::stage_line(layout);
}
ps::Step Experiment::first_step() const { return impl_->before.steps; }
const std::string& Experiment::folder() const { return impl_->folder_path; }

std::shared_ptr<Reporter> Experiment::Impl::begin_reports() {
  auto reporter = std::make_shared<Reporter>(
      Reporter::Options{config().metrics.every_steps, config().train.epochs, blueprint->optimizer(), before,
                        total_steps, options.progress},
      std::move(*metrics), *log);
  for (const std::string& warning : warnings) log->write(ps::LogLevel::warning, "coordinator", warning);
  for (const std::string& note : notes) log->write(ps::LogLevel::info, "coordinator", note);
  const auto begun = std::chrono::steady_clock::now();
  reporter->begin(begun);
  checkpoints->begin(begun);
  return reporter;
}

Result<ps::RunSummary> Experiment::Impl::train() {
  const std::shared_ptr<Reporter> reporter = begin_reports();
  parts.observer = reporter;
  auto started = Run::start(parts);
  if (!started) {
    folder->discard();
    return tl::unexpected<Error>(started.error());
  }
  {
    std::lock_guard lock(mutex);
    run = std::move(*started);
    if (stopped) run->stop();
  }
  const ps::RunResult result = run->wait();
  ps::RunSummary summary = ps::summarize(result, seconds_before + reporter->seconds());
  summary.samples += resumed.samples;
  summary.seconds += resumed.seconds;
  summary.name = config().run.name;
  summary.lines_lost = reporter->lines_lost() + log->failures();
  std::unique_ptr<Run> over;
  {
    std::lock_guard lock(mutex);
    over = std::move(run);
  }
  page.reset();
  over.reset();  // not under the lock: it waits for checkpoints under way, for which no `stop` should wait
  for (const std::string& note : blueprint->take_worker_notes()) log->write(ps::LogLevel::info, "coordinator", note);
  write_trace();
  conclude(summary);
  if (!summary.error.empty()) log->write(ps::LogLevel::error, "coordinator", summary.error);
  if (result.superseded) return summary;  // the folder is another's
  write_summary(summary);
  if (journal)
    if (auto gone = ps::remove_with_files(*ps::make_posix_files(), ps::journal_folder(folder_path));
        !gone && gone.error().kind != ErrorKind::missing)
      log->write(ps::LogLevel::warning, "coordinator", "the journal was not removed: " + gone.error().message);
  return summary;
}

void Experiment::Impl::write_summary(const ps::RunSummary& summary) {
  if (is_over()) return;
  if (auto written = ps::replace_file(folder->summary(), ps::summary_json(summary)); !written)
    log->write(ps::LogLevel::warning, "coordinator", "the summary was not written: " + written.error().message);
}

/// What the run was for and is not on disk makes it a failure, however well it was trained.
void Experiment::Impl::conclude(ps::RunSummary& summary) {
  summary.exit_code = summary.outcome == "finished" ? 0 : summary.outcome == "interrupted" ? 130 : 1;
  const auto fail_with = [&](const std::string& why) {
    if (summary.error.empty()) summary.error = why;
    summary.exit_code = 1;
  };
  if (const std::string why = checkpoints->not_saved(); !why.empty())
    fail_with("the last parameters are not saved: " + why);
  if (!recorder) return;
  if (auto closed = recorder->close(); !closed) fail_with("the run cannot be replayed: " + closed.error().message);
}

void Experiment::Impl::write_trace() {
  if (!parts.trace || options.spread) return;  // the nodes write theirs
  const std::string path = cat(told.metrics.trace_folder, "/trace.json");
  if (auto written = ps::write_trace(path, *parts.trace, {0, "run"}); !written)
    log->write(ps::LogLevel::warning, "coordinator", "the trace was not written: " + written.error().message);
}

Result<ps::RunSummary> Experiment::run() { return impl_->train(); }

void Experiment::link_lost(uint32_t node) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->run) impl_->run->link_lost(node);
}

void Experiment::warn(const std::string& what) { impl_->log->write(ps::LogLevel::warning, "coordinator", what); }

void Experiment::stop() {
  std::lock_guard lock(impl_->mutex);
  impl_->stopped = true;
  if (impl_->run) impl_->run->stop();
}

}  // namespace troupe
