#include "scenario.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>

#include "gradient.h"

namespace troupe::sim {
namespace {

using ps::Mode;
using ps::Policy;

constexpr int64_t kMs = 1000;

int64_t between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
}

template <class T>
const T& one_of(Random& random, const std::vector<T>& choices) {
  return choices[random.below(choices.size())];
}

Policy draw_policy(Random& random, bool all_reduce) {
  const int64_t kind = between(random, 0, all_reduce ? 3 : 2);
  if (kind == 0) return {Mode::sync};
  if (kind == 1) return {Mode::ssp, between(random, 0, 3)};
  if (kind == 2) return {Mode::async};
  return {Mode::all_reduce};
}

/// A rule a layer; or one for all, which makes runs of one policy as frequent as mixed ones.
std::vector<ps::UpdateRule> draw_rules(Random& random, const std::vector<LayerSpec>& layers, bool all_reduce) {
  if (random.chance(0.4)) return {{"*", draw_policy(random, all_reduce)}};
  std::vector<ps::UpdateRule> rules;
  for (const LayerSpec& layer : layers) rules.push_back({layer.name, draw_policy(random, all_reduce)});
  return rules;
}

std::vector<LayerSpec> draw_layers(Random& random) {
  std::vector<LayerSpec> layers;
  const int64_t count = between(random, 2, 5);
  for (int64_t i = 0; i < count; ++i) {
    LayerSpec layer;
    layer.name = cat("layer", i);
    const int64_t weights = one_of(random, std::vector<int64_t>{8, 16, 24, 40, 64});
    layer.params = {{layer.name + ".weight", {weights}, 0, ParamKind::weight},
                    {layer.name + ".bias", {4}, weights, ParamKind::bias}};
    layer.count = weights + 4;
    layers.push_back(std::move(layer));
  }
  return layers;
}

ps::DealerOptions draw_dealer(Random& random, size_t workers) {
  ps::DealerOptions dealer;
  const bool equal = random.chance(0.5);
  const int64_t batch = between(random, 1, 4);
  for (size_t w = 0; w < workers; ++w) dealer.worker_batch.push_back(equal ? batch : between(random, 1, 4));
  dealer.global_batch = std::accumulate(dealer.worker_batch.begin(), dealer.worker_batch.end(), int64_t{0});
  const int64_t steps = between(random, 4, 12);
  dealer.epochs = between(random, 1, 3);
  dealer.train_samples = std::max<int64_t>(static_cast<int64_t>(workers),
                                           steps * dealer.global_batch / dealer.epochs + between(random, -2, 3));
  if (random.chance(0.3)) dealer.max_steps = between(random, 2, steps);
  return dealer;
}

/// An update of every stage follows each micro-batch, or every few of them, while others are under way.
void never_flush(Random& random, Scenario& s) {
  const uint32_t stages = s.coordinator.layout.stages;
  ps::ScheduleOptions options{.name = "pipedream", .stages = stages, .micro_batches = 1};
  if (random.chance(0.5)) {
    options.name = "pipedream-2bw";
    options.micro_batches = options.accumulate = static_cast<uint32_t>(between(random, 1, 3));
  }
  s.stage.plan.schedule = std::make_shared<const ps::Schedule>(*ps::make_schedule(options));
  s.stage.strict = false;
  s.coordinator.clip_norm = 0;
  s.coordinator.skip_non_finite = false;
  s.non_finite = 0;
}

/// Makes each worker a replica of several: a pipeline. Clipping and skipping need every layer to wait for the group.
void cut_into_stages(Random& random, Scenario& s) {
  ps::CoordinatorOptions& c = s.coordinator;
  const auto layers = static_cast<ps::LayerId>(c.layers.size());
  const auto stages = static_cast<uint32_t>(between(random, 2, std::min<int64_t>(layers, 3)));
  const size_t replicas = std::min<size_t>(c.dealer.worker_batch.size(), 2);
  const std::vector<int64_t> batches(c.dealer.worker_batch.begin(),
                                     c.dealer.worker_batch.begin() + static_cast<std::ptrdiff_t>(replicas));
  c.dealer.global_batch = std::accumulate(batches.begin(), batches.end(), int64_t{0});
  c.dealer.worker_batch.clear();
  for (const int64_t batch : batches) c.dealer.worker_batch.insert(c.dealer.worker_batch.end(), stages, batch);
  c.layout.stages = stages;
  for (ps::LayerId layer = 0; layer < layers; ++layer) {
    const uint32_t stage = layer * stages / layers;
    c.layout.stage_of.push_back(stage);
    if (s.stage.plan.chunks.size() == stage) s.stage.plan.chunks.push_back({layer, layer});
    ++s.stage.plan.chunks.back().last;
  }
  const char* name = one_of(random, std::vector{"1f1b", "gpipe", "zb-h1", "sequential"});
  const auto micro_batches = static_cast<uint32_t>(between(random, 1, 3));
  s.stage.plan.schedule = std::make_shared<const ps::Schedule>(
      *ps::make_schedule({.name = name, .stages = stages, .micro_batches = micro_batches}));
  s.stage.strict = random.chance(0.2);
  s.stage.evaluation_batch = between(random, 1, 4);
  s.stage.stall_ms = 0;  // whoever is gone is found missing otherwise
  Random without_flush(derive_seed(s.seed, "asynchronous"));
  if (without_flush.chance(0.3)) never_flush(without_flush, s);
  if (c.clip_norm == 0 && !c.skip_non_finite && !s.asynchronous()) return;
  c.policies.assign(layers, {Mode::sync});
  c.changes.clear();
}

template <class M>
size_t index_of() {
  return ps::Message(M{}).index();
}

/// The moments that are worth a mishap: one lies around each of these messages.
void draw_moment(Random& random, Mishap& mishap) {
  if (random.chance(0.4)) {
    mishap.at_us = between(random, 0, 150 * kMs);
    return;
  }
  const std::vector<size_t> moments = {
      index_of<ps::Membership>(),    index_of<ps::MembershipAck>(), index_of<ps::Snapshot>(),
      index_of<ps::SnapshotReply>(), index_of<ps::Spawn>(),         index_of<ps::Push>(),
      index_of<ps::PushAck>(),       index_of<ps::PullReply>(),     index_of<ps::Verdict>(),
      index_of<ps::WorkDone>(),      index_of<ps::Work>(),          index_of<ps::StatsRequest>()};
  mishap.after = one_of(random, moments);
  mishap.count = random.chance(0.5) ? between(random, 1, 4) : between(random, 1, 40);
}

void draw_mishaps(Random& random, Scenario& scenario) {
  const bool all_reduce = scenario.all_reduce;
  const int64_t count = random.chance(0.3) ? 0 : between(random, 1, 4);
  for (int64_t i = 0; i < count; ++i) {
    Mishap mishap;
    const std::vector<Mishap::Kind> kinds =
        all_reduce ? std::vector{Mishap::Kind::crash_server, Mishap::Kind::zombie_server, Mishap::Kind::cut_off_server,
                                 Mishap::Kind::cut_off_worker}
                   : std::vector{Mishap::Kind::crash_server, Mishap::Kind::zombie_server, Mishap::Kind::cut_off_server,
                                 Mishap::Kind::crash_worker, Mishap::Kind::zombie_worker, Mishap::Kind::cut_off_worker};
    mishap.kind = one_of(random, kinds);
    mishap.for_us = between(random, 10, 100) * kMs;
    const bool server = mishap.kind == Mishap::Kind::crash_server || mishap.kind == Mishap::Kind::zombie_server ||
                        mishap.kind == Mishap::Kind::cut_off_server;
    mishap.slot = static_cast<uint32_t>(random.below(server ? scenario.servers() : scenario.workers()));
    draw_moment(random, mishap);
    scenario.mishaps.push_back(std::move(mishap));
  }
  const bool only_sync = scenario.stages() > 1 && (scenario.needs_verdict() || scenario.asynchronous());
  if (random.chance(0.15) && !only_sync) {
    Mishap change;
    change.kind = Mishap::Kind::change_policies;
    change.rules = draw_rules(random, scenario.coordinator.layers, all_reduce);
    draw_moment(random, change);
    scenario.mishaps.push_back(std::move(change));
  }
  if (scenario.resumes || random.chance(0.03)) {
    Mishap stop;
    stop.kind = Mishap::Kind::stop;
    draw_moment(random, stop);
    scenario.mishaps.push_back(std::move(stop));
  }
}

void draw_coordinator_crashes(Scenario& scenario) {
  Random random(derive_seed(scenario.seed, "coordinator"));
  while (random.chance(0.3)) {
    Mishap mishap;
    mishap.kind = Mishap::Kind::crash_coordinator;
    mishap.for_us = between(random, 1, 100) * kMs;
    draw_moment(random, mishap);
    scenario.mishaps.push_back(std::move(mishap));
  }
}

// ---- several processes ---------------------------------------------------------------------------------------------

constexpr int64_t kLeaseMs = 400;

void draw_host_moment(Random& random, Mishap& mishap) {
  const std::vector<size_t> moments = {
      index_of<ps::Membership>(), index_of<ps::MembershipAck>(), index_of<ps::Spawn>(),     index_of<ps::SpawnAck>(),
      index_of<ps::Push>(),       index_of<ps::PushAck>(),       index_of<ps::Synced>(),    index_of<ps::Replicate>(),
      index_of<ps::ReplicateAck>(), index_of<ps::Snapshot>(),    index_of<ps::SnapshotReply>(), index_of<ps::Ready>()};
  draw_moment(random, mishap);
  if (mishap.after == std::variant_npos) {
    mishap.at_us = between(random, 0, 400 * kMs);
    return;
  }
  mishap.after = one_of(random, moments);
}


void draw_host_mishap(Random& random, Scenario& s, bool& has_left) {
  using Kind = Mishap::Kind;
  Mishap m;
  m.kind = one_of(random, std::vector{Kind::crash_host, Kind::crash_host, Kind::replace_host, Kind::pause_host,
                                      Kind::pause_host, Kind::leave_host, Kind::cut_hosts, Kind::cut_hosts,
                                      Kind::crash_worker});
  const auto hosts = static_cast<uint32_t>(s.coordinator.roster.nodes);
  m.slot = static_cast<uint32_t>(random.below(m.kind == Kind::crash_worker ? s.workers() : hosts));
  draw_host_moment(random, m);
  const bool short_cut = random.chance(0.3);
  m.for_us = (short_cut ? between(random, 10, 150) : between(random, kLeaseMs, 2 * kLeaseMs)) * kMs;
  switch (m.kind) {
    case Kind::crash_host:
      m.for_us = between(random, 1, 300) * kMs;
      [[fallthrough]];
    case Kind::replace_host:
      if (!s.outlives(m.slot)) return;
      break;
    case Kind::pause_host:
      if (!s.outlives(m.slot)) m.for_us = between(random, 10, 150) * kMs;
      break;
    case Kind::leave_host:
      if (std::exchange(has_left, true) || hosts < 3) return;
      if (Random others(derive_seed(s.seed, "leavers")); others.chance(0.5))
        for (uint32_t place = 0; place < s.hosts.size(); ++place)
          if (others.chance(0.8)) m.group |= uint64_t{1} << place;
      break;
    case Kind::cut_hosts: {
      bool lost = true;
      for (uint32_t place = 0; place < s.hosts.size(); ++place)
        if (random.chance(0.4)) m.group |= uint64_t{1} << place;
      if (random.chance(0.3)) m.group |= Mishap::kCoordinatorBit;
      for (uint32_t place = 0; place < s.hosts.size(); ++place) lost = lost && s.outlives(place);
      if (!lost) m.for_us = between(random, 10, 150) * kMs;
      m.one_way = random.chance(0.5);
      break;
    }
    default: break;
  }
  s.mishaps.push_back(std::move(m));
}

/// Where the others go on without those who are lost, or without what they held: some come back at once, in the midst
/// of steps, at their boundaries and while the group decides.
void draw_returns(Scenario& s) {
  Random random(derive_seed(s.seed, "returns"));
  const std::vector<size_t> moments = {index_of<ps::WorkDone>(),      index_of<ps::Work>(),    index_of<ps::Snapshot>(),
                                       index_of<ps::SnapshotReply>(), index_of<ps::Partial>(), index_of<ps::PushAck>()};
  while (random.chance(0.6)) {
    Mishap m;
    m.kind = Mishap::Kind::crash_host;
    m.slot = static_cast<uint32_t>(random.below(static_cast<uint64_t>(s.coordinator.roster.nodes)));
    m.after = one_of(random, moments);
    m.count = between(random, 1, 12);
    m.for_us = between(random, 1, 40) * kMs;
    if (s.outlives(m.slot)) s.mishaps.push_back(std::move(m));
  }
}

/// By random numbers of its own: some layers that the devices of each host add up before they are pushed.
void add_up_on_hosts(Scenario& s) {
  Random random(derive_seed(s.seed, "host groups"));
  if (s.stages() > 1 || random.chance(0.5)) return;
  s.host_size = static_cast<size_t>(between(random, 1, 3));
  ps::CoordinatorOptions& c = s.coordinator;
  c.layout.spread = true;  // all_reduce layers are the servers'
  for (ps::LayerId layer = 0; layer < c.layers.size(); ++layer)
    if (c.layers[layer].row_width == 0 && random.chance(0.8)) c.policies[layer] = {Mode::all_reduce};
}

/// Turns a run in one process into one over several, with mishaps of its own.
void spread(Random& random, Scenario& s) {
  ps::CoordinatorOptions& c = s.coordinator;
  c.roster.nodes = between(random, 2, 4);
  c.roster.lease_ms = kLeaseMs;
  c.roster.replace_ms = one_of(random, std::vector<int64_t>{50, 300});
  c.replicas = random.chance(0.5);
  c.servers_recover = !c.replicas && random.chance(0.3);
  c.servers_reload = !c.replicas && !c.servers_recover && random.chance(0.75);
  for (int64_t i = 0; i < c.roster.nodes; ++i) s.hosts.push_back({});
  if (!s.outlives(0) || random.chance(0.3)) {  // workers here, servers there
    for (size_t i = 0; i < s.hosts.size(); ++i) s.hosts[i] = {i % 2 == 0, i % 2 == 1};
    if (c.replicas || c.servers_reload) s.hosts[0].takes_servers = true;
  }
  s.all_reduce = false;
  add_up_on_hosts(s);
  if (s.stages() == 1 && random.chance(0.4)) c.on_loss = ps::OnLoss::shrink;
  const std::vector<Mishap> before = std::exchange(s.mishaps, {});
  for (Mishap m : before) {
    if (m.kind == Mishap::Kind::crash_coordinator && random.chance(0.4)) {
      m.kind = Mishap::Kind::stop_coordinator;
      m.for_us = between(random, kLeaseMs / 2, kLeaseMs) * kMs;  // all have heard of the other by then
    }
    if (m.kind == Mishap::Kind::change_policies || m.kind == Mishap::Kind::stop ||
        m.kind == Mishap::Kind::crash_coordinator || m.kind == Mishap::Kind::stop_coordinator)
      s.mishaps.push_back(std::move(m));
  }
  bool has_left = false;
  for (int64_t i = random.chance(0.15) ? 0 : between(random, 1, 4); i > 0; --i) draw_host_mishap(random, s, has_left);
  for (; random.chance(0.3) && s.hosts.size() < 6; s.hosts.push_back(s.hosts[random.below(s.hosts.size())])) {
    Mishap join;
    join.kind = Mishap::Kind::join_host;
    join.slot = static_cast<uint32_t>(s.hosts.size());
    draw_host_moment(random, join);
    s.mishaps.push_back(std::move(join));
  }
  s.heal_us = between(random, 200, 900) * kMs;
  if (s.shrinks() || c.servers_reload) draw_returns(s);
}

ps::NetworkFaults draw_network(Random& random) {
  ps::NetworkFaults faults;
  faults.loss = one_of(random, std::vector<double>{0, 0.02, 0.1, 0.2});
  faults.duplication = one_of(random, std::vector<double>{0, 0.02, 0.1, 0.3});
  faults.max_delay_us = one_of(random, std::vector<int64_t>{100, 2 * kMs, 5 * kMs, 30 * kMs});
  return faults;
}

std::string describe_rules(const std::vector<ps::UpdateRule>& rules) {
  std::string text;
  for (const ps::UpdateRule& rule : rules)
    text += cat(text.empty() ? "" : ", ", rule.layers, " ", describe(rule.policy));
  return text;
}

const char* name_of(Mishap::Kind kind) {
  switch (kind) {
    case Mishap::Kind::crash_worker: return "crash of worker";
    case Mishap::Kind::crash_server: return "crash of server";
    case Mishap::Kind::zombie_worker: return "zombie worker";
    case Mishap::Kind::zombie_server: return "zombie server";
    case Mishap::Kind::cut_off_worker: return "the network loses worker";
    case Mishap::Kind::cut_off_server: return "the network loses server";
    case Mishap::Kind::change_policies: return "policy change";
    case Mishap::Kind::stop: return "stop";
    case Mishap::Kind::crash_coordinator: return "crash of coordinator";
    case Mishap::Kind::stop_coordinator: return "the coordinator stands still";
    case Mishap::Kind::crash_host: return "crash of process";
    case Mishap::Kind::replace_host: return "another process in place of";
    case Mishap::Kind::pause_host: return "pause of process";
    case Mishap::Kind::leave_host: return "departure of process";
    case Mishap::Kind::join_host: return "arrival of process";
    case Mishap::Kind::cut_hosts: return "partition";
  }
  return "?";
}

const char* scale_name(ps::ImmediateScale scale) {
  switch (scale) {
    case ps::ImmediateScale::none: return "none";
    case ps::ImmediateScale::samples: return "samples";
    case ps::ImmediateScale::staleness: return "staleness";
  }
  return "?";
}

template <size_t... I>
const char* message_name(size_t index, std::index_sequence<I...>) {
  const char* name = "?";
  ((index == I ? void(name = ps::name_of(ps::Message(std::variant_alternative_t<I, ps::Message>{}))) : void()), ...);
  return name;
}

/// By random numbers of its own: some layers, whose gradients then do not depend on weights.
void read_by_rows(Scenario& s) {
  constexpr int64_t kWidth = 4;
  Random random(derive_seed(s.seed, "rows"));
  if (random.chance(0.6)) return;
  std::vector<LayerSpec>& layers = s.coordinator.layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (random.chance(0.5)) continue;
    layers[i].params = {{layers[i].name + ".weight", {layers[i].count / kWidth, kWidth}, 0, ParamKind::weight}};
    layers[i].row_width = kWidth;
    s.reads_weights[i] = false;
  }
}

/// By random numbers of its own: half of the runs that skip steps and whose layers all wait for the group.
void scale_losses(Scenario& s) {
  Random random(derive_seed(s.seed, "loss scale"));
  ps::CoordinatorOptions& c = s.coordinator;
  const auto waits = [](const ps::Policy& policy) { return policy.lockstep(); };
  const auto rule_waits = [&](const ps::UpdateRule& rule) { return waits(rule.policy); };
  bool all = c.skip_non_finite && std::ranges::all_of(c.policies, waits);
  for (const ps::PolicyChange& change : c.changes) all = all && std::ranges::all_of(change.rules, rule_waits);
  for (const Mishap& mishap : s.mishaps) all = all && std::ranges::all_of(mishap.rules, rule_waits);
  if (!all || random.chance(0.5)) return;
  c.loss_scaling = {.dynamic = true, .initial = 64, .interval = between(random, 1, 4)};
  c.stop_at_least_scale = false;
}

}  // namespace

Scenario make_scenario(uint64_t seed) {
  Random random(derive_seed(seed, "scenario"));
  Scenario s;
  s.seed = seed;
  const bool all_reduce = s.all_reduce = random.chance(0.25);
  s.resumes = random.chance(0.1);
  const size_t workers = static_cast<size_t>(between(random, 1, 4));
  ps::CoordinatorOptions& c = s.coordinator;
  c.layers = draw_layers(random);
  for (ps::LayerId layer = 0; layer < c.layers.size(); ++layer) {
    std::vector<float>& values = s.first_values.emplace_back();
    for (int64_t i = 0; i < c.layers[layer].count; ++i) values.push_back(initial_value(layer, i));
  }
  const std::vector<ps::UpdateRule> rules = draw_rules(random, c.layers, all_reduce);
  std::vector<std::string> names;
  for (const LayerSpec& layer : c.layers) names.push_back(layer.name);
  c.policies = *ps::resolve_policies(names, rules);
  c.layout.servers = static_cast<uint32_t>(between(random, 1, 3));
  c.layout.slice_bytes = one_of(random, std::vector<int64_t>{64, 128, 1024});
  c.layout.fuse_bytes = one_of(random, std::vector<int64_t>{64, 128, 256});
  c.dealer = draw_dealer(random, workers);
  c.checkpoint_every_steps = random.chance(0.5) ? between(random, 1, 5) : 0;
  c.evaluate_every_epochs = random.chance(0.4) ? 1 : 0;
  c.test_samples = random.chance(0.7) ? between(random, 1, 6) : 0;
  if (random.chance(0.25)) {
    for (ps::Step step = between(random, 1, 4); c.changes.size() < 2 && random.chance(0.8);
         step += between(random, 1, 4))
      c.changes.push_back({step, draw_rules(random, c.layers, all_reduce)});
  }
  if (random.chance(0.2)) c.clip_norm = one_of(random, std::vector<double>{1, 4, 16});
  if (random.chance(0.2)) {
    c.skip_non_finite = true;
    s.non_finite = 0.1;
  }
  c.max_restarts = 1000;
  c.servers_recover = true;
  s.immediate_scale =
      one_of(random, std::vector{ps::ImmediateScale::none, ps::ImmediateScale::samples, ps::ImmediateScale::staleness});
  s.shuffle = random.chance(0.5);
  s.reads_weights.assign(c.layers.size(), false);
  if (!all_reduce && random.chance(0.5))
    for (size_t i = 0; i < s.reads_weights.size(); ++i) s.reads_weights[i] = random.chance(0.5);
  s.network = draw_network(random);
  s.heal_us = between(random, 50, 400) * kMs;
  s.impatience = one_of(random, std::vector<double>{0, 0.05, 0.3});
  s.events_between_images = one_of(random, std::vector<size_t>{0, 5, 20});
  Random stages(derive_seed(seed, "stages"));
  if (!all_reduce && !s.resumes && stages.chance(0.2)) cut_into_stages(stages, s);
  if (!all_reduce && s.stages() == 1) read_by_rows(s);
  draw_mishaps(random, s);
  draw_coordinator_crashes(s);
  Random hosts(derive_seed(seed, "hosts"));
  if (!all_reduce && !s.resumes && hosts.chance(0.5)) spread(hosts, s);
  scale_losses(s);
  return s;
}

Scenario make_resumed(const Scenario& first, const ps::CheckpointRequest& checkpoint) {
  Random random(derive_seed(first.seed, "resume"));
  Scenario s = first;
  s.resumes = false;
  ps::CoordinatorOptions& c = s.coordinator;
  const ps::DealerOptions fresh = draw_dealer(random, static_cast<size_t>(between(random, 1, 4)));
  if (static_cast<int64_t>(fresh.worker_batch.size()) <= c.dealer.train_samples) {
    c.dealer.worker_batch = fresh.worker_batch;
    c.dealer.global_batch = fresh.global_batch;
  }
  c.layout.servers = static_cast<uint32_t>(between(random, 1, 3));
  c.resume = checkpoint.dealer;
  c.resume_scale = checkpoint.loss_scale;
  c.loss_scaling = {};
  for (const ps::SliceState& state : checkpoint.slices) {
    const ps::Slice& slice = checkpoint.layout->slices[state.slice];
    const auto values = state.values.span<float>();
    std::copy(values.begin(), values.end(), s.first_values[slice.layer].begin() + slice.begin);
  }
  s.mishaps.clear();
  draw_mishaps(random, s);
  draw_coordinator_crashes(s);
  scale_losses(s);
  return s;
}

std::string describe(const Scenario& s) {
  const ps::CoordinatorOptions& c = s.coordinator;
  std::string text = cat("  workers ", s.workers(), " with batches");
  for (const int64_t batch : c.dealer.worker_batch) text += cat(' ', batch);
  text += cat("; servers ", s.servers(), "; slices of ", c.layout.slice_bytes, " bytes, fused up to ",
              c.layout.fuse_bytes, "\n  ", c.dealer.train_samples, " samples, ", c.dealer.epochs, " epochs, max_steps ",
              c.dealer.max_steps, "; checkpoint every ", c.checkpoint_every_steps, " steps, evaluation every ",
              c.evaluate_every_epochs, " epochs of ", c.test_samples, " samples\n");
  if (s.stages() > 1)
    text += cat("  ", s.stages(), " stages a replica, ", s.stage.plan.schedule->name, ", ",
                s.stage.plan.schedule->micro_batches, " micro-batches", s.stage.strict ? ", strictly" : "", "\n");
  for (size_t i = 0; i < c.layers.size(); ++i)
    text += cat("  ", c.layers[i].name, ": ", c.layers[i].count, " parameters, ", describe(c.policies[i]),
                s.stages() > 1 ? cat(", stage ", c.layout.stage_of[i]) : "",
                c.layers[i].row_width > 0 ? ", by rows" : "",
                s.reads_weights[i] ? ", gradients depend on weights" : "", "\n");
  for (const ps::PolicyChange& change : c.changes)
    text += cat("  from step ", change.step, ": ", describe_rules(change.rules), "\n");
  text += cat("  clip_norm ", c.clip_norm, ", skip_non_finite ", c.skip_non_finite, " (", s.non_finite,
              " of the steps)",
              c.loss_scaling.dynamic ? cat(", loss scale grows after ", c.loss_scaling.interval, " steps") : "",
              ", immediate scale ", scale_name(s.immediate_scale), ", shuffle ", s.shuffle,
              "\n  network: loss ", s.network.loss, ", duplication ", s.network.duplication, ", delay ",
              s.network.min_delay_us, " .. ", s.network.max_delay_us, " us, sound from ", s.heal_us,
              " us on; impatience ", s.impatience, "\n  stores keep ", s.events_between_images,
              " events before they want an image (0: all)\n");
  for (size_t place = 0; place < s.hosts.size(); ++place)
    text += cat("  process ", place, " takes", s.hosts[place].takes_workers ? " workers" : "",
                s.hosts[place].takes_servers ? " servers" : "", "\n");
  if (s.host_size > 0) text += cat("  hosts of ", s.host_size, " processes, whose devices add up\n");
  if (s.over_hosts())
    text += cat("  ", c.roster.nodes, " processes at first, servers keep what they have in ",
                c.replicas ? "replicas" : c.servers_recover ? "logs" : c.servers_reload ? "checkpoints" : "nothing",
                ", on_loss ", s.shrinks() ? "shrink" : "restart", ", replaced after ", c.roster.replace_ms, " ms\n");
  for (const Mishap& m : s.mishaps) {
    text += cat("  ", name_of(m.kind), ' ', m.slot, m.rules.empty() ? "" : cat(" to ", describe_rules(m.rules)));
    if (m.kind == Mishap::Kind::cut_off_worker || m.kind == Mishap::Kind::cut_off_server ||
        m.kind == Mishap::Kind::crash_coordinator || m.kind == Mishap::Kind::stop_coordinator ||
        m.kind == Mishap::Kind::crash_host ||
        m.kind == Mishap::Kind::pause_host || m.kind == Mishap::Kind::cut_hosts)
      text += cat(" for ", m.for_us, " us");
    if (m.kind == Mishap::Kind::leave_host && m.group != 0) text += ", and of";
    if (m.kind == Mishap::Kind::cut_hosts) text += m.one_way ? ", one way, of" : ", both ways, of";
    if (m.group != 0) {
      for (size_t place = 0; place < s.hosts.size(); ++place)
        if (m.group >> place & 1) text += cat(' ', place);
      if (m.group & Mishap::kCoordinatorBit) text += " coordinator";
    }
    text += m.after == std::variant_npos
                ? cat(" at ", m.at_us, " us\n")
                : cat(" at ", message_name(m.after, std::make_index_sequence<std::variant_size_v<ps::Message>>{}),
                      " number ", m.count, "\n");
  }
  return text;
}

}  // namespace troupe::sim
