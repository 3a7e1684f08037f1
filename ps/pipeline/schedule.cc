#include <troupe/ps/pipeline/schedule.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/config/nearest.h>
#include <troupe/ps/pipeline/internal/orders.h>

namespace troupe::ps {
namespace {

/// Of a program's own arithmetic, not of memory: what is more is a typing error.
constexpr uint64_t kMostActions = 100'000'000;

enum class Sizes : uint8_t { one_chunk, any_chunks, two_chunks };

struct Named {
  const char* name;
  Sizes sizes;
  bool fused_backward;
  WeightVersions weights;
  orders::Order (*order)(const Schedule& shape, uint32_t stage);
};

orders::Order zb_h1(const Schedule& shape, uint32_t stage) {
  return orders::zero_bubble(shape, stage, shape.stages - stage - 1, stage);
}

orders::Order zb_h2(const Schedule& shape, uint32_t stage) {
  return orders::zero_bubble(shape, stage, 2 * (shape.stages - stage - 1), 2 * stage);
}

const std::vector<Named>& all_named() {
  using enum WeightVersions;
  static const std::vector<Named> all = {
      {"sequential", Sizes::one_chunk, true, flushed, orders::sequential},
      {"gpipe", Sizes::one_chunk, true, flushed, orders::gpipe},
      {"1f1b", Sizes::one_chunk, true, flushed, orders::one_forward_one_backward},
      {"interleaved", Sizes::any_chunks, true, flushed, orders::interleaved},
      {"zb-h1", Sizes::one_chunk, false, flushed, zb_h1},
      {"zb-h2", Sizes::one_chunk, false, flushed, zb_h2},
      {"zb-v", Sizes::two_chunks, false, flushed, orders::zero_bubble_v},
      {"pipedream", Sizes::one_chunk, true, stashed, orders::one_forward_one_backward},
      {"pipedream-2bw", Sizes::one_chunk, true, two_buffers, orders::one_forward_one_backward},
  };
  return all;
}

Result<const Named*> find_named(const std::string& name) {
  for (const Named& named : all_named())
    if (name == named.name) return &named;
  std::string known;
  for (const std::string& each : schedule_names()) known += (known.empty() ? "" : ", ") + each;
  const std::string near = nearest_word(name, schedule_names());
  return fail(ErrorKind::invalid,
              cat("there is no schedule '", name, "'", near.empty() ? "" : "; did you mean '" + near + "'?",
                  near.empty() ? "; known are " : " Known are ", known));
}

Status check_sizes(const ScheduleOptions& o, const Named& named) {
  const auto wrong = [&](const auto&... text) {
    return fail(ErrorKind::invalid, cat("schedule '", o.name, "' ", text...));
  };
  if (o.stages == 0 || o.micro_batches == 0 || o.chunks == 0)
    return wrong("needs at least one stage, micro-batch and chunk a stage, not ", o.stages, ", ", o.micro_batches,
                 " and ", o.chunks);
  if (named.sizes == Sizes::one_chunk && o.chunks != 1)
    return wrong("has one chunk a stage, not ", o.chunks, "; 'interleaved' and 'zb-v' have more");
  if (named.sizes == Sizes::two_chunks && o.chunks != 2)
    return wrong("has two chunks a stage, down and up its V, not ", o.chunks);
  if (named.sizes == Sizes::any_chunks && o.chunks > 1 && o.micro_batches % o.stages != 0)
    return wrong("takes micro-batches in groups of as many as there are stages: ", o.micro_batches,
                 " micro-batches are no multiple of ", o.stages, " stages");
  if (named.weights != WeightVersions::two_buffers && o.accumulate != 0)
    return wrong("takes no `accumulate` (", o.accumulate, "); only 'pipedream-2bw' does");
  if (uint64_t{o.stages} * o.chunks > kMostActions / (3 * uint64_t{o.micro_batches}))
    return wrong("of ", o.stages, " stages, ", o.chunks, " chunks a stage and ", o.micro_batches,
                 " micro-batches has more than ", kMostActions, " actions");
  return {};
}

/// Micro-batches from one step to the next.
Result<uint32_t> step_interval(const ScheduleOptions& o, const Named& named) {
  if (named.weights == WeightVersions::flushed) return o.micro_batches;
  if (named.weights == WeightVersions::stashed) return 1;
  const uint32_t interval = o.accumulate ? o.accumulate : std::min(o.stages, o.micro_batches);
  if (o.micro_batches % interval != 0)
    return fail(ErrorKind::invalid, cat("schedule '", o.name, "' steps every ", interval, " micro-batches, but ",
                                        o.micro_batches, " micro-batches are no multiple of that"));
  if (interval < o.stages && interval != o.micro_batches)
    return fail(ErrorKind::invalid, cat("schedule '", o.name, "' has two weight buffers, which takes a step every ",
                                        o.stages, " micro-batches (one a stage) or more, not every ", interval));
  return interval;
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Named& named : all_named()) list.emplace_back(named.name);
    return list;
  }();
  return names;
}

Result<Schedule> make_schedule(const ScheduleOptions& options) {
  const auto named = find_named(options.name);
  if (!named) return tl::unexpected(named.error());
  TROUPE_TRY(check_sizes(options, **named));
  const auto interval = step_interval(options, **named);
  if (!interval) return tl::unexpected(interval.error());

  Schedule schedule{.name = options.name,
                    .stages = options.stages,
                    .chunks = options.stages * options.chunks,
                    .micro_batches = options.micro_batches,
                    .fused_backward = (*named)->fused_backward,
                    .weights = (*named)->weights};
  const bool folded = (*named)->sizes == Sizes::two_chunks;
  for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
    schedule.stage_of.push_back(folded && chunk >= options.stages ? schedule.chunks - 1 - chunk
                                                                  : chunk % options.stages);
  const bool one_chunk = schedule.chunks == schedule.stages;
  for (uint32_t stage = 0; stage < options.stages; ++stage) {
    const auto order = (*named)->order == orders::interleaved && one_chunk
                           ? orders::one_forward_one_backward(schedule, stage)
                           : (*named)->order(schedule, stage);
    schedule.actions.push_back(orders::with_steps(order, *interval));
  }
  return schedule;
}

std::vector<Action> with_transfers(const Schedule& s, uint32_t stage) {
  const auto elsewhere = [&](uint32_t chunk, int step) {
    const int64_t other = int64_t{chunk} + step;
    return other >= 0 && other < s.chunks && s.stage_of[static_cast<size_t>(other)] != stage;
  };
  const ActionKind gradient_made = s.fused_backward ? ActionKind::backward_weight : ActionKind::backward_input;
  std::vector<Action> whole;
  for (const Action& action : s.actions[stage]) {
    const auto transfer = [&](ActionKind kind) { whole.push_back({kind, action.micro_batch, action.chunk}); };
    const bool forward = action.kind == ActionKind::forward;
    if (forward && elsewhere(action.chunk, -1)) transfer(ActionKind::receive_activation);
    if (action.kind == ActionKind::backward_input && elsewhere(action.chunk, +1))
      transfer(ActionKind::receive_gradient);
    whole.push_back(action);
    if (forward && elsewhere(action.chunk, +1)) transfer(ActionKind::send_activation);
    if (action.kind == gradient_made && elsewhere(action.chunk, -1)) transfer(ActionKind::send_gradient);
  }
  return whole;
}

std::vector<uint32_t> weight_versions(const Schedule& s, uint32_t chunk) {
  TROUPE_CHECK(chunk < s.chunks, "chunk ", chunk, " of ", s.chunks);
  std::vector<uint32_t> versions(s.micro_batches, 0);
  if (s.weights == WeightVersions::flushed) return versions;
  uint32_t steps = 0, summed = 0;  // micro-batches that the steps so far have behind them
  for (const Action& action : s.actions[s.stage_of[chunk]]) {
    if (action.chunk != chunk) continue;
    if (action.kind == ActionKind::forward) versions[action.micro_batch] = steps;
    if (action.kind != ActionKind::step) continue;
    if (s.weights == WeightVersions::two_buffers)
      for (; summed <= action.micro_batch; ++summed) versions[summed] = steps > 0 ? steps - 1 : 0;
    ++steps;
  }
  return versions;
}

uint32_t weight_lag(const Schedule& s, uint32_t stage) {
  switch (s.weights) {
    case WeightVersions::flushed: return 0;
    case WeightVersions::stashed: return s.stages - 1 - stage;
    case WeightVersions::two_buffers: return 1;
  }
  return 0;
}

uint32_t weight_copies(const Schedule& s, uint32_t chunk) {
  const auto versions = weight_versions(s, chunk);
  uint32_t steps = 0, most = 1;
  for (const Action& action : s.actions[s.stage_of[chunk]]) {
    if (action.chunk != chunk) continue;
    if (action.kind == ActionKind::backward_weight) most = std::max(most, steps - versions[action.micro_batch] + 1);
    if (action.kind == ActionKind::step) ++steps;
  }
  return most;
}

std::string action_text(const Schedule& s, const Action& action) {
  const auto letters = [](ActionKind kind) {
    switch (kind) {
      case ActionKind::forward: return "F";
      case ActionKind::backward_input: return "I";
      case ActionKind::backward_weight: return "W";
      case ActionKind::send_activation: return "sendF";
      case ActionKind::receive_activation: return "recvF";
      case ActionKind::send_gradient: return "sendI";
      case ActionKind::receive_gradient: return "recvI";
      case ActionKind::all_reduce: return "R";
      case ActionKind::step: return "S";
    }
    return "?";
  };
  const std::string text = cat(letters(action.kind), action.micro_batch);
  return s.chunks > s.stages ? cat(text, '.', action.chunk) : text;
}

}  // namespace troupe::ps
