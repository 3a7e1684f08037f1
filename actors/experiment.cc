#include <troupe/actors/experiment.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>

#include <troupe/actors/blueprint.h>
#include <troupe/actors/reporter.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/checkpoint/checkpoint_store.h>
#include <troupe/ps/config/replay_settings.h>
#include <troupe/ps/config/resolved.h>
#include <troupe/ps/control/ask_coordinator.h>
#include <troupe/ps/metrics/cut_rows.h>
#include <troupe/ps/metrics/http_page.h>
#include <troupe/ps/metrics/run_folder.h>
#include <troupe/ps/metrics/summarize.h>
#include <troupe/ps/metrics/trace_file.h>
#include <troupe/ps/transport/memory_transport.h>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string record_folder(const std::string& run) { return run + "/record"; }
std::string journal_folder(const std::string& run) { return run + "/journal"; }

constexpr ps::Endpoint kScraper{ps::Role::client, 0, 2};  // tools that ask have odd incarnations

}  // namespace

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
  std::unique_ptr<ps::HttpPage> page;  // goes first

  const ps::RunConfig& config() const { return blueprint->config(); }
  const ps::Sources& sources() const { return blueprint->sources(); }

  Status resume();
  void spread();
  void choose_folders();
  Status read_recording();
  Status plan_steps();
  Status recover();
  Status begin_journal();
  Status open_page();
  Status open_folder();
  Status fill_folder();
  Status write_config();
  void write_trace();
  Result<ps::RunSummary> train();
  Status save(const ps::CheckpointRequest& request);
  Result<ps::Reload> load(const ps::ReloadRequest& request);
  void conclude(ps::RunSummary& summary);
  /// What a run that was over left in this folder stays as it is, however often it is resumed.
  bool is_over() const;
};

Result<Recovery> Recovery::find(const std::string& run) {
  const std::string path = journal_folder(run);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return fail(ErrorKind::missing, cat(run, ": holds no journal to go on from: the run is over, or has lived in one "
                                        "process; to go on from its last checkpoint use --resume"));
  auto lock = ps::RunLock::take(path + "/lock");
  if (!lock) return tl::unexpected<Error>(lock.error());
  auto journal = ps::JournalFolder::open(ps::make_posix_files(), path);
  if (!journal) return tl::unexpected<Error>(journal.error());
  Recovery found;
  found.run = run;
  found.lock = std::move(*lock);
  found.journal = std::move(*journal);
  return found;
}

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
  TROUPE_TRY(impl->open_page());
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

Status Experiment::Impl::resume() {
  if (options.recovery) {
    const ps::JournalHead& head = options.recovery->head();
    parts.coordinator.resume = head.resume;
    parts.coordinator.resume_scale = head.loss_scale;
    resumed_from = head.resume_from;
    before.seconds = head.seconds;
    return {};
  }
  if (options.resume.empty()) return {};
  if (config().debug.record)
    return fail(ErrorKind::invalid,
                cat("debug.record = true (", sources().of("debug.record"),
                    "): a resumed run cannot be recorded, because a replay begins at step 0; add --set "
                    "debug.record=false"));
  auto search = ps::find_checkpoint(ps::make_posix_files(), options.resume);
  if (!search) return fail("cannot resume", search.error());
  for (const auto& skipped : search->skipped)
    warnings.push_back(cat("passed over the checkpoint ", skipped.folder, ": ", skipped.reason));
  auto checkpoint = std::make_shared<ps::Checkpoint>(std::move(*search->newest));
  TROUPE_TRY(Blueprint::resume(parts, checkpoint));
  const ps::Manifest& manifest = checkpoint->manifest();
  resumed_from = checkpoint->folder();
  if (const auto spent = manifest.metrics.find("seconds"); spent != manifest.metrics.end()) before.seconds = spent->second;
  return {};
}

Status Experiment::Impl::read_recording() {
  if (options.replay.empty()) return {};
  if (auto same = ps::check_same_run(config(), sources(), options.replay); !same)
    return fail(cat("cannot replay ", options.replay), same.error());
  auto recording = ps::read_recording(record_folder(options.replay), static_cast<uint32_t>(config().parallel.servers));
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
  // On demand the last step need not be a whole batch.
  if (dealer->done()) before.steps = std::max(before.steps, total_steps);
  resumed = before;
  if (options.recovery) return {};
  notes.push_back(cat("resuming from ", resumed_from, " at step ", before.steps));
  nothing_left = dealer->done();
  if (nothing_left)
    notes.push_back(cat("nothing is left to train: the run ends at step ", total_steps,
                        "; raise train.epochs or train.max_steps to go on"));
  return {};
}

void Experiment::Impl::spread() {
  const ps::Durability durability = config().checkpoint.durability;
  parts.coordinator.servers_recover = durability == ps::Durability::logged;
  parts.coordinator.servers_reload = durability == ps::Durability::checkpoint &&
                                     !config().debug.record && options.replay.empty();  // of those a loss is the end
  parts.coordinator.replicas = options.spread && durability == ps::Durability::replicated;
  if (!options.spread) {
    if (durability == ps::Durability::replicated)
      notes.push_back("checkpoint.durability = replicated: there is no other node in a run of one process");
    return;
  }
  const ExperimentOptions::Spread& spread = *options.spread;
  parts.transport = spread.transport;
  parts.coordinator.connections = spread.connections;
  parts.set_routes = spread.set_routes;
  ps::RosterOptions& roster = parts.coordinator.roster;
  roster.nodes = spread.nodes;
  roster.config_hash = ps::config_hash(config());
  roster.welcome.run = spread.run;
  roster.welcome.config = ps::resolved_toml(config());
  roster.welcome.resume_from = resumed_from;
  for (const ps::Policy& policy : parts.coordinator.policies)
    if (policy.mode == ps::Mode::all_reduce) {
      notes.push_back("the workers live in several processes: of all_reduce layers those of a process sum first, and the servers what the processes push");
      break;
    }
}

/// The core hears again all that it was told in the processes before this one.
Status Experiment::Impl::recover() {
  if (!options.recovery) return {};
  if (config().debug.record)
    return fail(ErrorKind::invalid, "debug.record = true: a recording with a gap cannot be replayed; go on from the "
                                    "last checkpoint (--resume) with --set debug.record=false");
  lock = options.recovery->lock;
  journal = options.recovery->journal;
  auto core = journal->replay(parts.coordinator);
  if (!core)
    return fail("cannot go on as the coordinator; the run can go on from its last checkpoint (--resume)", core.error());
  const ps::RunStatus status = (*core)->status();
  seconds_before = static_cast<double>((*core)->now_ms() - (*core)->begun_ms()) / 1000;
  before = {status.step, before.samples + status.samples, before.seconds + seconds_before};
  parts.recovered = std::move(*core);
  parts.journal = journal;
  return {};
}

Status Experiment::Impl::open_page() {
  const std::string& listen = config().metrics.listen;
  if (listen.empty()) return {};
  const bool trusted = options.spread && options.spread->network.insecure;
  if (!ps::is_loopback(listen) && !trusted)
    return fail(ErrorKind::invalid,
                cat("metrics.listen = ", listen, " (", sources().of("metrics.listen"),
                    "): whoever reaches it reads the run's numbers: use loopback, as 127.0.0.1:9464, or say "
                    "--insecure-network where you trust that network"));
  if (!parts.transport) parts.transport = std::make_shared<ps::MemoryTransport>();
  auto opened = ps::HttpPage::open(
      {listen, "/metrics", "text/plain; version=0.0.4; charset=utf-8"},
      [transport = parts.transport]() -> std::optional<std::string> {
        const auto status = ps::ask_coordinator(*transport, kScraper, ps::StatusRequest{}, std::chrono::seconds(1));
        return status ? std::optional(ps::status_prometheus(*status)) : std::nullopt;
      });
  if (!opened) return fail("metrics.listen", opened.error());
  page = std::move(*opened);
  notes.push_back(cat("metrics are at http://", page->address(), "/metrics"));
  return {};
}

// What servers log is named by the time, so that a run that goes on from a checkpoint never reads what came after that.
// Every process is told the folders, and a coordinator that is started again finds them in the journal.
void Experiment::Impl::choose_folders() {
  told = config();
  std::string& logs = told.checkpoint.log_folder;
  if (!options.recovery) {
    const std::string parent = logs.empty() ? folder_path + "/updates" : logs;
    logs = cat(std::filesystem::absolute(parent).lexically_normal().string(), '/', options.stamp);
  }
  // All processes cut alike, and only this one needs the file.
  if (told.parallel.stages > 1 && !told.parallel.profile.empty()) {
    told.parallel.cuts = parts.stage.plan.counts();
    told.parallel.profile.clear();
  }
  std::string& traces = told.metrics.trace_folder;
  if (told.metrics.trace) traces = std::filesystem::absolute(traces.empty() ? folder_path : traces).lexically_normal();
  Blueprint::keep_promises(parts, told, options.spread.has_value());
  parts.coordinator.roster.welcome.config = ps::resolved_toml(told);
}

// A run of several processes may be resumed in one, which needs no journal, but the place of the one that had it.
Status Experiment::Impl::begin_journal() {
  const std::string path = journal_folder(folder_path);
  std::error_code ignored;
  if (options.recovery || (!options.spread && !std::filesystem::exists(path, ignored))) return {};
  const auto files = ps::make_posix_files();
  TROUPE_TRY(files->make_folder(path));
  auto locked = ps::RunLock::take(path + "/lock");
  if (!locked) return tl::unexpected<Error>(locked.error());
  lock = std::move(*locked);
  if (!options.spread) return ps::remove_with_files(*files, path);
  ps::JournalHead head;
  head.run = options.spread->run;
  head.network = options.spread->network;
  head.nodes = options.spread->nodes;
  head.config = ps::resolved_toml(told);
  head.resume_from = resumed_from;
  head.resume = parts.coordinator.resume;
  head.loss_scale = parts.coordinator.resume_scale;
  head.seconds = before.seconds;
  auto made = ps::JournalFolder::create(files, path, head);
  if (!made) return tl::unexpected<Error>(made.error());
  parts.journal = journal = std::move(*made);
  return {};
}

/// A resumed run goes on in its folder, unless another is named.
Status Experiment::Impl::open_folder() {
  std::error_code ignored;
  if (options.recovery) options.resume = options.recovery->run;
  const bool same = options.run_dir.empty() || std::filesystem::equivalent(options.run_dir, options.resume, ignored);
  auto opened = !options.resume.empty() && same ? ps::RunFolder::open(options.resume)
                : options.run_dir.empty() ? ps::RunFolder::create_under(options.parent, config().run.name, options.stamp)
                                          : ps::RunFolder::create_at(options.run_dir);
  if (!opened) return tl::unexpected<Error>(opened.error());
  folder = std::move(*opened);
  folder_path = folder->path();
  choose_folders();
  auto filled = fill_folder();
  if (!filled) folder->discard();
  return filled;
}

Status Experiment::Impl::fill_folder() {
  TROUPE_TRY(begin_journal());
  TROUPE_TRY(write_config());
  auto file = ps::LineFile::open(folder->log());
  if (!file) return tl::unexpected<Error>(file.error());
  log = std::make_unique<ps::Log>(std::move(*file), [] { return std::chrono::system_clock::now(); }, options.log);
  if (!options.resume.empty() && !is_over())
    for (const std::string& path : {folder->metrics_csv(), folder->metrics_jsonl()})
      TROUPE_TRY(ps::cut_rows_after(path, before.steps));
  if (is_over()) parts.coordinator.checkpoint_at_end = false;
  auto opened = ps::MetricsWriter::open(config().metrics.csv && !is_over() ? folder->metrics_csv() : "",
                                        config().metrics.jsonl && !is_over() ? folder->metrics_jsonl() : "");
  if (!opened) return tl::unexpected<Error>(opened.error());
  metrics = std::move(*opened);
  store = std::make_unique<ps::CheckpointStore>(
      ps::make_posix_files(), ps::CheckpointStore::Options{folder->checkpoints(), config().checkpoint.keep});
  parts.write_checkpoint = [this](const ps::CheckpointRequest& request) { return save(request); };
  parts.read_checkpoint = [this](const ps::ReloadRequest& request) { return load(request); };
  if (!config().debug.record) return {};
  auto made = ps::Recorder::create(record_folder(folder_path), static_cast<uint32_t>(config().parallel.servers));
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
    if (old && ps::resolved_toml(old->config) == ps::resolved_toml(config())) return {};
    const std::string kept = cat(folder_path, "/config.until-step-", before.steps, ".toml");
    std::filesystem::rename(folder->config(), kept, ignored);
    notes.push_back(cat("the config is not the one that the run had so far, which is kept as ", kept));
  }
  return ps::replace_file(folder->config(), ps::resolved_toml(config(), &sources()));
}

Status Experiment::Impl::save(const ps::CheckpointRequest& request) {
  ps::CheckpointContent content{*request.layout, request.slices, request.step, request.dealer,
                                parts.optimizer->name(), parts.optimizer->state_names(), {}, request.loss_scale};
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

void Experiment::Impl::write_trace() {
  if (!parts.trace || options.spread) return;  // the nodes write theirs
  const std::string path = cat(told.metrics.trace_folder, "/trace.json");
  if (auto written = ps::write_trace(path, *parts.trace, {0, "run"}); !written)
    log->write(ps::LogLevel::warning, "coordinator", "the trace was not written: " + written.error().message);
}

/// A damaged checkpoint is passed over for an older one; where all are damaged, the run ends rather than begin anew.
Result<ps::Reload> Experiment::Impl::load(const ps::ReloadRequest& request) {
  auto search = store->newest_valid();
  if (!search) return tl::unexpected<Error>(search.error());
  for (const auto& skipped : search->skipped)
    log->write(ps::LogLevel::warning, "coordinator", cat("passed over the checkpoint ", skipped.folder, ": ", skipped.reason));
  if (!search->newest && !search->skipped.empty())
    return fail(ErrorKind::corrupt, cat(search->skipped.front().folder, ": ", search->skipped.front().reason,
                                        "; there is no other checkpoint"));
  if (!search->newest) {
    ps::Reload first = first_parameters(request, parts.initial, parts.coordinator.resume ? parts.coordinator.resume->step : 0);
    first.folder = resumed_from;
    return first;
  }
  const ps::Checkpoint& checkpoint = *search->newest;
  TROUPE_TRY(ps::check_fits(checkpoint.manifest(), parts.coordinator.layers, parts.optimizer->name(),
                            parts.optimizer->state_names()));
  ps::Reload reload{checkpoint.folder(), checkpoint.manifest().dealer.step, {}};
  for (const ps::Slice& slice : request.layout->slices) {
    if (slice.server != request.server.index) continue;
    auto state = checkpoint.slice(slice);
    if (!state) return tl::unexpected<Error>(state.error());
    reload.slices.push_back(std::move(*state));
  }
  return reload;
}

bool Experiment::Impl::is_over() const {
  std::error_code ignored;
  return nothing_left && std::filesystem::exists(folder->summary(), ignored);
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
  auto reporter = std::make_shared<Reporter>(
      Reporter::Options{config().metrics.every_steps, config().train.epochs, blueprint->optimizer(), before,
                        total_steps, options.progress},
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
  over.reset();  // not under the lock: it waits for checkpoints under way, whose `save` takes it
  for (const std::string& note : blueprint->take_worker_notes()) log->write(ps::LogLevel::info, "coordinator", note);
  write_trace();
  conclude(summary);
  if (!summary.error.empty()) log->write(ps::LogLevel::error, "coordinator", summary.error);
  if (result.superseded) return summary;  // the folder is another's
  if (auto written = is_over() ? Status() : ps::replace_file(folder->summary(), ps::summary_json(summary)); !written)
    log->write(ps::LogLevel::warning, "coordinator", "the summary was not written: " + written.error().message);
  if (journal)
    if (auto gone = journal->discard(); !gone && gone.error().kind != ErrorKind::missing)
      log->write(ps::LogLevel::warning, "coordinator", "the journal was not removed: " + gone.error().message);
  return summary;
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
