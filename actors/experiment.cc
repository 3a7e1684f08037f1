#include <troupe/actors/experiment.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <mutex>

#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/checkpoint/checkpoint_store.h>
#include <troupe/ps/config/checks.h>
#include <troupe/ps/config/resolved.h>
#include <troupe/ps/config/setting.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/metrics/metrics_writer.h>
#include <troupe/ps/metrics/run_folder.h>
#include <troupe/ps/metrics/summarize.h>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Puts a NaN into one gradient, to show what the run does about it (`[debug] nan_*`).
class NanSource final : public GradientSource {
 public:
  NanSource(std::unique_ptr<GradientSource> source, int64_t at_step, std::string layer)
      : source_(std::move(source)), at_step_(at_step), layer_(std::move(layer)) {}

  const std::vector<LayerSpec>& layers() const override { return source_->layers(); }
  void initialize(size_t layer, uint64_t seed, std::span<float> values) override {
    source_->initialize(layer, seed, values);
  }
  void forward(const Batch& batch, std::span<const Tensor> weights, size_t first, size_t last) override {
    source_->forward(batch, weights, first, last);
  }
  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    const bool now = step_++ == at_step_;
    return source_->backward(batch, weights, [&](size_t layer, Tensor gradient) {
      const bool here = layer_.empty() ? layer == 0 : layers()[layer].name == layer_;
      if (now && here) gradient.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      ready(layer, std::move(gradient));
    });
  }
  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor> weights) override {
    return source_->evaluate(samples, weights);
  }
  int64_t train_samples() const override { return source_->train_samples(); }
  int64_t test_samples() const override { return source_->test_samples(); }

 private:
  std::unique_ptr<GradientSource> source_;
  int64_t at_step_;
  std::string layer_;
  int64_t step_ = 0;
};

std::string record_folder(const std::string& run) { return run + "/record"; }

/// What a resumed run has behind it.
struct Before {
  ps::Step steps = 0;
  int64_t samples = 0;
  double seconds = 0;
};

/// Metrics, log and progress of a run, from what its coordinator reports.
class Reporter final : public RunObserver {
 public:
  Reporter(const ps::RunConfig& config, const ps::OptimizerOptions& optimizer, const Before& before,
           ps::Step total_steps, const ExperimentOptions& options, ps::MetricsWriter metrics, ps::Log& log)
      : every_(config.metrics.every_steps), optimizer_(optimizer), before_(before), options_(options),
        metrics_(std::move(metrics)), log_(log) {
    progress_.step = window_.step = before.steps;
    progress_.total_steps = total_steps;
    progress_.epochs = config.train.epochs;
  }

  void begin(Clock::time_point now) { begin_ = window_begin_ = now; }

  void on_step(const ps::StepReport& r) override {
    samples_ += r.stats.samples;
    window_.stats.loss_sum += r.stats.loss_sum;
    window_.stats.correct += r.stats.correct;
    window_.stats.samples += r.stats.samples;
    window_.compute_s += r.compute_s;
    window_.wait_s += r.wait_s;
    window_.step = r.step;
    window_.epoch = r.epoch;
    lag_.add(r.max_lag);
    if (++window_steps_ >= every_) write_row({});
    progress_.step = r.step;
    progress_.total_steps = std::max(progress_.total_steps, r.step);
    progress_.epoch = r.epoch;
    const double samples = static_cast<double>(std::max<int64_t>(r.stats.samples, 1));
    const double loss = r.stats.loss_sum / samples;
    progress_.loss = progress_.loss == 0 ? loss : 0.95 * progress_.loss + 0.05 * loss;
    progress_.samples_per_second = static_cast<double>(samples_) / seconds_since(begin_);
    progress_.staleness_max = r.max_lag;
    if (options_.progress) options_.progress(progress_, false);
  }

  void on_evaluation(const ps::EvaluationReport& r) override {
    write_row(r);
    progress_.test_accuracy = static_cast<double>(r.stats.correct) / static_cast<double>(r.stats.samples);
    log_.write(ps::LogLevel::info, "coordinator",
               cat("after step ", r.step, ": test accuracy ", *progress_.test_accuracy, ", test loss ",
                   r.stats.loss_sum / static_cast<double>(r.stats.samples)));
  }

  void on_event(const std::string& event) override { log_.write(ps::LogLevel::warning, "coordinator", event); }

  void on_finished(const ps::RunResult& result) override {
    seconds_ = seconds_since(begin_);
    // On demand the number of steps depends on who asks when.
    if (result.outcome == ps::Outcome::completed) progress_.total_steps = progress_.step;
    if (window_steps_ > 0) write_row({});
    if (options_.progress) options_.progress(progress_, true);
  }

  double seconds() const { return seconds_; }
  int64_t lines_lost() const { return metrics_.failures(); }

 private:
  void write_row(const std::optional<ps::EvaluationReport>& evaluation) {
    const double window_s = seconds_since(window_begin_);
    const double samples = static_cast<double>(window_.stats.samples);
    ps::MetricsRow row;
    row.time_s = before_.seconds + seconds_since(begin_);
    row.step = window_.step;
    row.epoch = window_.epoch;
    row.loss = samples > 0 ? window_.stats.loss_sum / samples : std::nan("");
    if (samples > 0) row.accuracy = static_cast<double>(window_.stats.correct) / samples;
    if (evaluation && evaluation->stats.samples > 0) {
      const double tests = static_cast<double>(evaluation->stats.samples);
      row.test_loss = evaluation->stats.loss_sum / tests;
      row.test_accuracy = static_cast<double>(evaluation->stats.correct) / tests;
    }
    row.samples = before_.samples + samples_;
    row.samples_per_second = samples / window_s;
    row.learning_rate = ps::learning_rate(optimizer_, std::max<ps::Step>(window_.step - 1, 0));
    row.staleness_p50 = lag_.percentile(0.5);
    row.staleness_p95 = lag_.percentile(0.95);
    row.staleness_max = lag_.max();
    const double worked = window_.compute_s + window_.wait_s;
    row.wait_share = worked > 0 ? window_.wait_s / worked : 0;
    metrics_.write(row);
    const ps::StepReport last = window_;
    window_ = {};
    window_.step = last.step;
    window_.epoch = last.epoch;
    window_steps_ = 0;
    window_begin_ = Clock::now();
    lag_ = ps::Histogram();
  }

  int64_t every_;
  ps::OptimizerOptions optimizer_;
  Before before_;
  const ExperimentOptions& options_;
  ps::MetricsWriter metrics_;
  ps::Log& log_;
  Clock::time_point begin_, window_begin_;
  double seconds_ = 0;
  int64_t samples_ = 0;
  ps::StepReport window_;  ///< since the last row
  int64_t window_steps_ = 0;
  ps::Histogram lag_;
  ps::Progress progress_;
};

/// What may be another in a replay: it changes neither the numbers nor which events there are.
bool free_in_replay(const ps::Setting& setting) {
  for (const char* table : {"run", "elastic", "metrics"})
    if (setting.table() == table) return true;
  for (const char* key : {"data.path", "checkpoint.keep", "checkpoint.at_end", "debug.record", "debug.slow_worker",
                          "debug.slow_factor", "debug.slow_ms"})
    if (std::string_view(setting.key) == key) return true;
  return false;
}

std::string rules_text(const ps::RunConfig& config) {
  ps::RunConfig rules;
  rules.update = config.update;
  return ps::resolved_toml(rules);
}

/// Another config has other events: waiting for the recorded ones might never end, or give other parameters.
Status check_same_run(const ps::RunConfig& config, const ps::Sources& sources, const std::string& run) {
  const auto recorded = ps::load_config_file(run + "/config.resolved.toml");
  if (!recorded) return tl::unexpected<Error>(recorded.error());
  const char* advice = ": a replay needs the settings of the run that it repeats; leave out what changes them";
  for (const ps::Setting& setting : ps::all_settings()) {
    if (setting.per_rule() || free_in_replay(setting)) continue;
    const std::string before = ps::value_text(setting, recorded->config), now = ps::value_text(setting, config);
    if (before != now)
      return fail(ErrorKind::invalid, cat(setting.key, " = ", now, " (", sources.of(setting.key),
                                          ") was ", before, " when it was recorded", advice));
  }
  if (rules_text(recorded->config) != rules_text(config))
    return fail(ErrorKind::invalid, cat("[[update]] was another when it was recorded", advice));
  return {};
}

SlowDown slow_down(const ps::DebugSection& debug) {
  const auto extra = std::chrono::microseconds(static_cast<int64_t>(debug.slow_ms * 1000));
  return {debug.slow_factor, extra};
}

std::vector<std::string> names_of(const std::vector<LayerSpec>& layers) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : layers) names.push_back(layer.name);
  return names;
}

}  // namespace

struct Experiment::Impl {
  ps::RunConfig config;
  ExperimentOptions options;
  ps::Sources sources;
  std::vector<std::string> warnings, notes;  ///< for the log, a sentence each
  ps::DataSets data;
  std::shared_ptr<const nn::Model> model;
  ps::OptimizerOptions optimizer_options;
  ps::Step total_steps = 0;
  ClusterParts parts;
  std::string resumed_from;
  Before before;
  Clock::time_point begun;
  std::optional<ps::RunFolder> folder;
  std::string folder_path;
  std::optional<ps::MetricsWriter> metrics;
  std::unique_ptr<ps::Log> log;
  std::unique_ptr<ps::Recorder> recorder;
  std::unique_ptr<ps::CheckpointStore> store;
  std::mutex mutex;  // of what follows
  std::unique_ptr<Run> run;
  bool stopped = false;
  std::string not_saved;  ///< why the last checkpoint was not written

  Status load();
  Status choose_parts();
  Status resume();
  Status read_recording();
  Status plan_steps();
  Status open_folder();
  Status fill_folder();
  Status write_config();
  Result<ps::RunSummary> train();
  std::unique_ptr<GradientSource> make_source(ps::WorkerId worker) const;
  Status save(const ps::CheckpointRequest& request);
  void conclude(ps::RunSummary& summary);
};

Experiment::Experiment(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Experiment::~Experiment() = default;

Result<std::unique_ptr<Experiment>> Experiment::prepare(const ps::LoadedConfig& config, ExperimentOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->config = config.config;
  impl->options = std::move(options);
  impl->sources = config.sources;
  TROUPE_TRY(impl->load());
  TROUPE_TRY(impl->choose_parts());
  TROUPE_TRY(impl->resume());
  TROUPE_TRY(impl->read_recording());
  TROUPE_TRY(impl->plan_steps());
  if (impl->options.cancelled && impl->options.cancelled())
    return fail(ErrorKind::cancelled, "interrupted before the run began");
  TROUPE_TRY(impl->open_folder());
  return std::unique_ptr<Experiment>(new Experiment(std::move(impl)));
}

std::string Experiment::layer_table() const {
  const ps::CoordinatorOptions& c = impl_->parts.coordinator;
  const ps::Layout layout = ps::make_layout(c.layers, c.policies, c.layout);
  return ps::layer_table(ps::layers_of(layout, impl_->config.parallel.workers)) + ps::server_line(layout);
}
ps::Step Experiment::first_step() const { return impl_->before.steps; }
const std::string& Experiment::folder() const { return impl_->folder_path; }

Status Experiment::Impl::load() {
  auto sets = ps::load_dataset(ps::data_options(config));
  if (!sets) return tl::unexpected<Error>(sets.error());
  data = std::move(*sets);
  TROUPE_TRY(ps::check_against_data(config, sources, data.train->size()));
  auto made = nn::make_model(ps::model_spec(config, data.train->sample_shape(), data.train->classes()));
  if (!made) return tl::unexpected<Error>(made.error());
  model = std::make_shared<const nn::Model>(std::move(*made));
  return {};
}

Status Experiment::Impl::choose_parts() {
  ps::CoordinatorOptions& c = parts.coordinator;
  c.layers = model->layers();
  TROUPE_TRY(ps::check_against_model(config, sources, names_of(c.layers)));
  c.changes = ps::rules_by_step(config.update);
  auto policies = ps::resolve_policies(names_of(c.layers), c.changes.front().rules);
  if (!policies) return tl::unexpected<Error>(policies.error());
  c.policies = std::move(*policies);
  c.changes.erase(c.changes.begin());
  for (const ps::PolicyChange& change : c.changes)
    if (auto later = ps::resolve_policies(names_of(c.layers), change.rules); !later)
      return fail(cat("from step ", change.step), later.error());
  c.layout = ps::layout_options(config);
  c.dealer = ps::dealer_options(config, data.train->size());
  c.checkpoint_every_steps = config.checkpoint.every_steps;
  c.checkpoint_at_end = config.checkpoint.at_end;
  c.evaluate_every_epochs = config.train.evaluate_every_epochs;
  c.test_samples = data.test->size();
  c.clip_norm = config.train.clip_norm;
  c.skip_non_finite = config.train.on_nonfinite == ps::NonFinite::skip;
  // A recording knows of no restarts: a recorded run that loses a worker ends.
  c.max_restarts = config.debug.record ? 0 : config.elastic.max_restarts;

  // Of the whole run, so that a resumed one goes on with the same schedule.
  auto dealer = ps::Dealer::make(c.dealer);
  if (!dealer) return tl::unexpected<Error>(dealer.error());
  optimizer_options = ps::optimizer_options(config, dealer->total_schedule_steps());
  auto optimizer = ps::make_optimizer(optimizer_options);
  if (!optimizer) return tl::unexpected<Error>(optimizer.error());
  parts.optimizer = std::move(*optimizer);
  c.layout.whole_layers = parts.optimizer->needs_whole_tensors();
  parts.immediate_scale = config.servers.immediate_scale;
  parts.seed = static_cast<uint64_t>(config.train.seed);
  parts.shuffle = config.data.shuffle;
  parts.threads_per_worker = static_cast<int>(config.parallel.threads_per_worker);
  parts.source = [this](ps::WorkerId worker) { return make_source(worker); };
  parts.initial = initial_from(make_source(0), *parts.optimizer, parts.seed);
  if (config.debug.slow_worker >= 0)
    parts.slow_down = [this](ps::WorkerId worker) {
      return worker == config.debug.slow_worker ? slow_down(config.debug) : SlowDown{};
    };
  return {};
}

std::unique_ptr<GradientSource> Experiment::Impl::make_source(ps::WorkerId worker) const {
  std::unique_ptr<GradientSource> source = std::make_unique<nn::ModelSource>(
      model, data.train, data.test, static_cast<int>(config.parallel.threads_per_worker));
  if (config.debug.nan_at_step >= 0 && worker == config.debug.nan_worker)
    source = std::make_unique<NanSource>(std::move(source), config.debug.nan_at_step, config.debug.nan_layer);
  return source;
}

Status Experiment::Impl::resume() {
  if (options.resume.empty()) return {};
  if (config.debug.record)
    return fail(ErrorKind::invalid,
                cat("debug.record = true (", sources.of("debug.record"),
                    "): a resumed run cannot be recorded, because a replay begins at step 0; add --set "
                    "debug.record=false"));
  auto search = ps::find_checkpoint(ps::make_posix_files(), options.resume);
  if (!search) return fail("cannot resume", search.error());
  for (const auto& skipped : search->skipped)
    warnings.push_back(cat("passed over the checkpoint ", skipped.folder, ": ", skipped.reason));
  auto checkpoint = std::make_shared<ps::Checkpoint>(std::move(*search->newest));
  const ps::Manifest& manifest = checkpoint->manifest();
  if (auto fits = ps::check_fits(manifest, parts.coordinator.layers, parts.optimizer->name(),
                                 parts.optimizer->state_names());
      !fits)
    return fail(cat("cannot resume from ", checkpoint->folder()), fits.error());
  resumed_from = checkpoint->folder();
  parts.coordinator.resume = manifest.dealer;
  if (const auto spent = manifest.metrics.find("seconds"); spent != manifest.metrics.end()) before.seconds = spent->second;
  parts.initial = [checkpoint](const ps::Slice& slice) {
    auto state = checkpoint->slice(slice);
    if (!state) throw std::runtime_error("cannot read the checkpoint: " + state.error().message);
    return std::move(*state);
  };
  return {};
}

Status Experiment::Impl::read_recording() {
  if (options.replay.empty()) return {};
  if (auto same = check_same_run(config, sources, options.replay); !same)
    return fail(cat("cannot replay ", options.replay), same.error());
  auto recording = ps::read_recording(record_folder(options.replay), static_cast<uint32_t>(config.parallel.servers));
  if (!recording) return fail(cat("cannot replay ", options.replay), recording.error());
  parts.replay = std::move(*recording);
  return {};
}

Status Experiment::Impl::plan_steps() {
  const ps::CoordinatorOptions& c = parts.coordinator;
  ps::DealerOptions dealt = c.dealer;
  dealt.lockstep = std::any_of(c.policies.begin(), c.policies.end(), [](const auto& p) { return p.lockstep(); });
  auto dealer = ps::Dealer::make(dealt, c.resume);
  if (!dealer) return fail(c.resume ? cat("cannot resume ", options.resume) : "cannot train", dealer.error());
  total_steps = dealer->total_steps();
  if (!c.resume) return {};
  before.samples = dealer->samples_dealt();
  before.steps = dealt.lockstep ? c.resume->step : before.samples / dealt.global_batch;
  notes.push_back(cat("resuming from ", resumed_from, " at step ", before.steps));
  if (dealer->done())
    notes.push_back(cat("nothing is left to train: the run ends at step ", total_steps,
                        "; raise train.epochs or train.max_steps to go on"));
  return {};
}

/// A resumed run goes on in its folder, unless another is named.
Status Experiment::Impl::open_folder() {
  std::error_code ignored;
  const bool same = options.run_dir.empty() || std::filesystem::equivalent(options.run_dir, options.resume, ignored);
  auto opened = !options.resume.empty() && same ? ps::RunFolder::open(options.resume)
                : options.run_dir.empty() ? ps::RunFolder::create_under(options.parent, config.run.name, options.stamp)
                                          : ps::RunFolder::create_at(options.run_dir);
  if (!opened) return tl::unexpected<Error>(opened.error());
  folder = std::move(*opened);
  folder_path = folder->path();
  auto filled = fill_folder();
  if (!filled) folder->discard();
  return filled;
}

Status Experiment::Impl::fill_folder() {
  TROUPE_TRY(write_config());
  auto file = ps::LineFile::open(folder->log());
  if (!file) return tl::unexpected<Error>(file.error());
  log = std::make_unique<ps::Log>(std::move(*file), [] { return std::chrono::system_clock::now(); }, options.log);
  auto opened = ps::MetricsWriter::open(config.metrics.csv ? folder->metrics_csv() : "",
                                        config.metrics.jsonl ? folder->metrics_jsonl() : "");
  if (!opened) return tl::unexpected<Error>(opened.error());
  metrics = std::move(*opened);
  store = std::make_unique<ps::CheckpointStore>(
      ps::make_posix_files(), ps::CheckpointStore::Options{folder->checkpoints(), config.checkpoint.keep});
  parts.write_checkpoint = [this](const ps::CheckpointRequest& request) { return save(request); };
  if (!config.debug.record) return {};
  auto made = ps::Recorder::create(record_folder(folder_path), static_cast<uint32_t>(config.parallel.servers));
  if (!made) return tl::unexpected<Error>(made.error());
  recorder = std::move(*made);
  parts.record_dealt = [this](const ps::CoordinatorCore::Dealt& dealt) { recorder->dealt(dealt); };
  parts.record_event = [this](ps::ServerId server, const ps::Shard::Event& event) { recorder->event(server, event); };
  return {};
}

/// A folder that is gone on in has a config: it stays where it says the same, with the sources it names, and is kept
/// under another name where it does not.
Status Experiment::Impl::write_config() {
  std::error_code ignored;
  if (std::filesystem::exists(folder->config(), ignored)) {
    const auto old = ps::load_config_file(folder->config(), {});
    if (old && ps::resolved_toml(old->config) == ps::resolved_toml(config)) return {};
    const std::string kept = cat(folder_path, "/config.until-step-", before.steps, ".toml");
    std::filesystem::rename(folder->config(), kept, ignored);
    notes.push_back(cat("the config is not the one that the run had so far, which is kept as ", kept));
  }
  return ps::replace_file(folder->config(), ps::resolved_toml(config, &sources));
}

Status Experiment::Impl::save(const ps::CheckpointRequest& request) {
  ps::CheckpointContent content{*request.layout, request.slices, request.step, request.dealer,
                                parts.optimizer->name(), parts.optimizer->state_names(), {}};
  content.metrics["seconds"] = before.seconds + seconds_since(begun);
  if (const StepStats& test = request.evaluation.stats; test.samples > 0) {
    content.metrics["test_accuracy"] = static_cast<double>(test.correct) / static_cast<double>(test.samples);
    content.metrics["test_loss"] = test.loss_sum / static_cast<double>(test.samples);
  }
  auto saved = store->save(content);
  {
    std::lock_guard lock(mutex);
    not_saved = saved ? "" : saved.error().message;
  }
  if (!saved) return tl::unexpected<Error>(saved.error());
  log->write(ps::LogLevel::info, "coordinator", cat("checkpoint ", saved->folder, ", ", saved->bytes, " bytes"));
  if (!saved->warning.empty()) log->write(ps::LogLevel::warning, "coordinator", saved->warning);
  return {};
}

/// What the run was for and is not on disk makes it a failure, however well it was trained.
void Experiment::Impl::conclude(ps::RunSummary& summary) {
  summary.exit_code = summary.outcome == "finished" ? 0 : summary.outcome == "interrupted" ? 130 : 1;
  const auto fail_with = [&](const std::string& why) {
    if (summary.error.empty()) summary.error = why;
    summary.exit_code = 1;
  };
  if (!not_saved.empty()) fail_with("the last parameters are not saved: " + not_saved);
  if (!recorder) return;
  if (auto closed = recorder->close(); !closed) fail_with("the run cannot be replayed: " + closed.error().message);
}

Result<ps::RunSummary> Experiment::Impl::train() {
  auto reporter = std::make_shared<Reporter>(config, optimizer_options, before, total_steps, options,
                                             std::move(*metrics), *log);
  for (const std::string& warning : warnings) log->write(ps::LogLevel::warning, "coordinator", warning);
  for (const std::string& note : notes) log->write(ps::LogLevel::info, "coordinator", note);
  parts.observer = reporter;
  begun = Clock::now();
  reporter->begin(begun);
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
  ps::RunSummary summary = ps::summarize(result, reporter->seconds());
  summary.name = config.run.name;
  summary.lines_lost = reporter->lines_lost() + log->failures();
  std::unique_ptr<Run> over;
  {
    std::lock_guard lock(mutex);
    over = std::move(run);
  }
  over.reset();  // not under the lock: it waits for checkpoints under way, whose `save` takes it
  conclude(summary);
  if (!summary.error.empty()) log->write(ps::LogLevel::error, "coordinator", summary.error);
  if (auto written = ps::replace_file(folder->summary(), ps::summary_json(summary)); !written)
    log->write(ps::LogLevel::warning, "coordinator", "the summary was not written: " + written.error().message);
  return summary;
}

Result<ps::RunSummary> Experiment::run() { return impl_->train(); }

void Experiment::stop() {
  std::lock_guard lock(impl_->mutex);
  impl_->stopped = true;
  if (impl_->run) impl_->run->stop();
}

}  // namespace troupe
