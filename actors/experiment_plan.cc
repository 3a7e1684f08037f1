#include <troupe/actors/internal/experiment_impl.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/checkpoint/checkpoint_folder.h>
#include <troupe/ps/config/replay_settings.h>
#include <troupe/ps/config/resolved.h>

// What a run is to do, and where it stands already: in a checkpoint, a recording or a journal. Nothing is written.
namespace troupe {

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
  if (const auto spent = manifest.metrics.find("seconds"); spent != manifest.metrics.end())
    before.seconds = spent->second;
  return {};
}

Status Experiment::Impl::read_recording() {
  if (options.replay.empty()) return {};
  if (auto same = ps::check_same_run(config(), sources(), options.replay); !same)
    return fail(cat("cannot replay ", options.replay), same.error());
  auto recording = ps::read_recording(ps::record_folder(options.replay), static_cast<uint32_t>(config().parallel.servers));
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
  parts.set_routes = spread.set_routes;
  ps::RosterOptions& roster = parts.coordinator.roster;
  roster.nodes = spread.nodes;
  roster.config_hash = ps::config_hash(config());
  roster.welcome.run = spread.run;
  roster.welcome.config = ps::resolved_toml(config());
  roster.welcome.resume_from = resumed_from;
  for (const ps::Policy& policy : parts.coordinator.policies)
    if (policy.mode == ps::Mode::all_reduce) {
      notes.push_back(
          "the workers live in several processes: of all_reduce layers those of a process sum first, and the servers "
          "what the processes push");
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

}  // namespace troupe
