#include <troupe/actors/internal/experiment_impl.h>

#include <filesystem>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/config/resolved.h>
#include <troupe/ps/metrics/cut_rows.h>

// What a run has on disk while it lasts. An error leaves no folder that was not there before.
namespace troupe {

/// A resumed run goes on in its folder, unless another is named.
Status Experiment::Impl::open_folder() {
  std::error_code ignored;
  if (options.recovery) options.resume = options.recovery->run;
  const bool same = options.run_dir.empty() || std::filesystem::equivalent(options.run_dir, options.resume, ignored);
  auto opened = !options.resume.empty() && same ? ps::RunFolder::open(options.resume)
                : options.run_dir.empty()
                    ? ps::RunFolder::create_under(options.parent, config().run.name, options.stamp)
                    : ps::RunFolder::create_at(options.run_dir);
  if (!opened) return tl::unexpected<Error>(opened.error());
  folder = std::move(*opened);
  folder_path = folder->path();
  choose_folders();
  auto filled = fill_folder();
  if (!filled) folder->discard();
  return filled;
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
  keep_checkpoints();
  return begin_recording();
}

// A run of several processes may be resumed in one, which needs no journal, but the place of the one that had it.
Status Experiment::Impl::begin_journal() {
  const std::string path = ps::journal_folder(folder_path);
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

/// A folder that is gone on in has a config: it stays where it says the same, with the sources it names, and is kept
/// under another name where it does not.
Status Experiment::Impl::write_config() {
  std::error_code ignored;
  if (std::filesystem::exists(folder->config(), ignored)) {
    if (options.recovery) return {};  // what it has is this, with folders in it as all were told of them
    const auto old = ps::load_config_file(folder->config(), {});
    if (old && ps::resolved_toml(old->config) == ps::resolved_toml(config())) return {};
    const std::string kept = cat(folder_path, "/config.until-step-", before.steps, ".toml");
    std::filesystem::rename(folder->config(), kept, ignored);
    notes.push_back(cat("the config is not the one that the run had so far, which is kept as ", kept));
  }
  return ps::replace_file(folder->config(), ps::resolved_toml(config(), &sources()));
}

void Experiment::Impl::keep_checkpoints() {
  const ps::CoordinatorOptions& c = parts.coordinator;
  checkpoints = std::make_unique<RunCheckpoints>(
      ps::CheckpointStore(ps::make_posix_files(), {folder->checkpoints(), config().checkpoint.keep}),
      RunCheckpoints::Options{parts.optimizer, c.layers, parts.initial, c.resume ? c.resume->step : 0, resumed_from,
                              before.seconds},
      *log);
  parts.write_checkpoint = [this](const ps::CheckpointRequest& request) { return checkpoints->save(request); };
  parts.read_checkpoint = [this](const ps::ReloadRequest& request) { return checkpoints->load(request); };
}

Status Experiment::Impl::begin_recording() {
  if (!config().debug.record) return {};
  auto made = ps::Recorder::create(ps::record_folder(folder_path), static_cast<uint32_t>(config().parallel.servers));
  if (!made) return tl::unexpected<Error>(made.error());
  recorder = std::move(*made);
  parts.record_dealt = [this](const ps::CoordinatorCore::Dealt& dealt) { recorder->dealt(dealt); };
  parts.record_event = [this](ps::ServerId server, const ps::Shard::Event& event) { recorder->event(server, event); };
  return {};
}

bool Experiment::Impl::is_over() const {
  std::error_code ignored;
  return nothing_left && std::filesystem::exists(folder->summary(), ignored);
}

}  // namespace troupe
