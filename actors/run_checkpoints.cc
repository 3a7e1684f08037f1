#include <troupe/actors/run_checkpoints.h>

#include <troupe/kernels/base/check.h>

namespace troupe {

Status RunCheckpoints::save(const ps::CheckpointRequest& request) {
  ps::CheckpointContent content{*request.layout, request.slices, request.step, request.dealer,
                                options_.optimizer->name(), options_.optimizer->state_names(), {}, request.loss_scale};
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begun_;
  content.metrics["seconds"] = options_.seconds_before + since.count();
  if (const StepStats& test = request.evaluation.stats; test.samples > 0) {
    content.metrics["test_accuracy"] = static_cast<double>(test.correct) / static_cast<double>(test.samples);
    content.metrics["test_loss"] = test.loss_sum / static_cast<double>(test.samples);
  }
  auto saved = store_.save(content);
  {
    std::lock_guard lock(mutex_);
    not_saved_ = saved ? "" : saved.error().message;
  }
  if (!saved) return tl::unexpected<Error>(saved.error());
  log_.write(ps::LogLevel::info, "coordinator", cat("checkpoint ", saved->folder, ", ", saved->bytes, " bytes"));
  if (!saved->warning.empty()) log_.write(ps::LogLevel::warning, "coordinator", saved->warning);
  return {};
}

Result<ps::Reload> RunCheckpoints::load(const ps::ReloadRequest& request) {
  auto search = store_.newest_valid();
  if (!search) return tl::unexpected<Error>(search.error());
  for (const auto& skipped : search->skipped)
    log_.write(ps::LogLevel::warning, "coordinator",
               cat("passed over the checkpoint ", skipped.folder, ": ", skipped.reason));
  if (!search->newest && !search->skipped.empty())
    return fail(ErrorKind::corrupt, cat(search->skipped.front().folder, ": ", search->skipped.front().reason,
                                        "; there is no other checkpoint"));
  if (!search->newest) {
    ps::Reload first = first_parameters(request, options_.initial, options_.first_step);
    first.folder = options_.begun_from;
    return first;
  }
  const ps::Checkpoint& checkpoint = *search->newest;
  TROUPE_TRY(ps::check_fits(checkpoint.manifest(), options_.layers, options_.optimizer->name(),
                            options_.optimizer->state_names()));
  ps::Reload reload{checkpoint.folder(), checkpoint.manifest().dealer.step, {}};
  for (const ps::Slice& slice : request.layout->slices) {
    if (slice.server != request.server.index) continue;
    auto state = checkpoint.slice(slice);
    if (!state) return tl::unexpected<Error>(state.error());
    reload.slices.push_back(std::move(*state));
  }
  return reload;
}

std::string RunCheckpoints::not_saved() const {
  std::lock_guard lock(mutex_);
  return not_saved_;
}

}  // namespace troupe
