#pragma once
#include <troupe/ps/control/internal/image.h>
#include <troupe/ps/control/roster.h>
#include <troupe/ps/control/run_result.h>
#include <troupe/ps/data/dealer.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/param/loss_scale.h>

/// The fields of what a coordinator's state is made of. A struct that gets another field does not compile before it is
/// named here. Left out: layouts, which follow from their policies, and what is in memory only (tensors, images).
namespace troupe {

template <ps::Of<StepStats> T>
auto fields(T& x) {
  auto& [loss_sum, correct, samples] = x;
  return std::tie(loss_sum, correct, samples);
}

}  // namespace troupe

namespace troupe::ps {

template <Of<Endpoint> T>
auto fields(T& x) {
  auto& [role, index, incarnation] = x;
  return std::tie(role, index, incarnation);
}

template <Of<Policy> T>
auto fields(T& x) {
  auto& [mode, staleness] = x;
  return std::tie(mode, staleness);
}

template <Of<UpdateRule> T>
auto fields(T& x) {
  auto& [layers, policy, from_step] = x;
  return std::tie(layers, policy, from_step);
}

template <Of<PolicyChange> T>
auto fields(T& x) {
  auto& [step, rules] = x;
  return std::tie(step, rules);
}

template <Of<SampleRange> T>
auto fields(T& x) {
  auto& [epoch, begin, count] = x;
  return std::tie(epoch, begin, count);
}

template <Of<Deal> T>
auto fields(T& x) {
  auto& [step, schedule_step, step_samples, range] = x;
  return std::tie(step, schedule_step, step_samples, range);
}

template <Of<DealerState> T>
auto fields(T& x) {
  auto& [train_samples, epoch, begin, step, returned] = x;
  return std::tie(train_samples, epoch, begin, step, returned);
}

template <Of<DealerOptions> T>
auto fields(T& x) {
  auto& [train_samples, epochs, max_steps, global_batch, worker_batch, stages, vacancies, lockstep] = x;
  return std::tie(train_samples, epochs, max_steps, global_batch, worker_batch, stages, vacancies, lockstep);
}

template <Of<Work> T>
auto fields(T& x) {
  auto& [number, kind, step, schedule_step, step_samples, range, since, loss_scale] = x;
  return std::tie(number, kind, step, schedule_step, step_samples, range, since, loss_scale);
}

template <Of<Spawn> T>
auto fields(T& x) {
  auto& [who, takes_over, image] = x;
  (void)image;
  return std::tie(who, takes_over);
}

template <Of<NodeAddress> T>
auto fields(T& x) {
  auto& [node, address, public_key, host] = x;
  return std::tie(node, address, public_key, host);
}

template <Of<Heartbeat> T>
auto fields(T& x) {
  auto& [number, queued_messages, queued_bytes, refused_frames, routes] = x;
  return std::tie(number, queued_messages, queued_bytes, refused_frames, routes);
}

template <Of<Membership> T>
auto fields(T& x) {
  auto& [generation, workers, servers, layout, rebase, replicas] = x;
  (void)layout;
  return std::tie(generation, workers, servers, rebase, replicas);
}

template <Of<Partial> T>
auto fields(T& x) {
  auto& [step, sum_of_squares, finite, culprit] = x;
  return std::tie(step, sum_of_squares, finite, culprit);
}

template <Of<Verdict> T>
auto fields(T& x) {
  auto& [step, skip, scale] = x;
  return std::tie(step, skip, scale);
}

template <Of<SnapshotReply> T>
auto fields(T& x) {
  auto& [round, slices] = x;
  (void)slices;
  return std::tie(round);
}

template <Of<LayerCounters> T>
auto fields(T& x) {
  auto& [layer, pushes, updates, pushed_bytes, pulled_bytes, lag_histogram, delay_histogram] = x;
  return std::tie(layer, pushes, updates, pushed_bytes, pulled_bytes, lag_histogram, delay_histogram);
}

template <Of<StatsReply> T>
auto fields(T& x) {
  auto& [round, layers, duplicates_dropped, refused, skipped_steps] = x;
  return std::tie(round, layers, duplicates_dropped, refused, skipped_steps);
}

template <Of<LossScale> T>
auto fields(T& x) {
  auto& [value, good_steps] = x;
  return std::tie(value, good_steps);
}

template <Of<StepReport> T>
auto fields(T& x) {
  auto& [step, epoch, stats, compute_s, wait_s, max_lag, non_finite, loss_scale] = x;
  return std::tie(step, epoch, stats, compute_s, wait_s, max_lag, non_finite, loss_scale);
}

template <Of<EvaluationReport> T>
auto fields(T& x) {
  auto& [step, epoch, stats] = x;
  return std::tie(step, epoch, stats);
}

template <Of<WorkerReport> T>
auto fields(T& x) {
  auto& [pieces, samples, compute_s, wait_s, pushed_bytes, pulled_bytes] = x;
  return std::tie(pieces, samples, compute_s, wait_s, pushed_bytes, pulled_bytes);
}

template <Of<LostRange> T>
auto fields(T& x) {
  auto& [server, layer, begin, end, from_step, to_step, updates, updates_lost] = x;
  return std::tie(server, layer, begin, end, from_step, to_step, updates, updates_lost);
}

template <Of<RunResult> T>
auto fields(T& x) {
  auto& [outcome, failure, steps, samples, last_epoch, evaluation, workers, layers, duplicates_dropped, refused,
    skipped_steps, worker_restarts, server_restarts, workers_dropped, checkpoints_written, checkpoints_failed,
    superseded, loss_scale, lost, layout] = x;
  (void)layout, (void)superseded;
  return std::tie(outcome, failure, steps, samples, last_epoch, evaluation, workers, layers, duplicates_dropped,
    refused, skipped_steps, worker_restarts, server_restarts, workers_dropped, checkpoints_written,
    checkpoints_failed, loss_scale, lost);
}

template <Of<Roster::Member> T>
auto fields(T& x) {
  auto& [state, node, hello, name, address, takes_workers, takes_servers, heard_ms, suspect_until_ms, last] = x;
  return std::tie(state, node, hello, name, address, takes_workers, takes_servers, heard_ms, suspect_until_ms, last);
}

}  // namespace troupe::ps
