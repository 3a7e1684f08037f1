#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/control/coordinator_core.h>

#include <tests/support/said.h>
#include <tests/support/shard_world.h>

namespace troupe::ps::test {

inline const Policy kSync{Mode::sync}, kAsync{Mode::async}, kSsp{Mode::ssp, 1}, kReduced{Mode::all_reduce};
inline constexpr Endpoint kNode{Role::node, 0, 1};

/// A coordinator of two workers that take 2 samples each of 20, and two servers, whose part the test plays.
class CoordinatorWorld {
 public:
  explicit CoordinatorWorld(Policy policy) {
    options.layers = {{"fc1", 32, {{"fc1.weight", {32}, 0}}}, {"fc2", 32, {{"fc2.weight", {32}, 0}}}};
    options.policies = {policy, policy};
    options.layout = {.servers = 2, .fuse_bytes = 4 * 32};
    options.dealer = {.train_samples = 20, .epochs = 1, .global_batch = 4, .worker_batch = {2, 2}};
    options.max_restarts = 1;
    options.checkpoint_at_end = false;
  }

  void begin() {
    core = CoordinatorCore::make(options).value();
    if (order) core->replay(*order);
    take(core->start());
    for (const Spawn& spawn : said<Spawn>()) hear(kNode, SpawnAck{spawn.who});
    join();
  }
  /// Everybody acknowledges the membership that was said last.
  void join() {
    for (ServerId s = 0; s < 2; ++s) hear(server(s), MembershipAck{});
    for (WorkerId w = 0; w < 2; ++w) hear(worker(w), MembershipAck{});
    said<Membership>();
  }
  void replace(const Endpoint& who, const std::string& reason = "gone") {
    hear(kNode, Down{who, reason});
    for (const Spawn& spawn : said<Spawn>()) hear(kNode, SpawnAck{spawn.who});
  }

  void hear(const Endpoint& from, Message body) {
    take(core->handle({from, kCoordinator, core->membership().generation, std::move(body)}));
  }
  void take(CoordinatorCore::Effects effects) {
    const auto add = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(all.send, effects.send);
    add(all.steps, effects.steps);
    add(all.evaluations, effects.evaluations);
    add(all.checkpoints, effects.checkpoints);
    add(all.reloads, effects.reloads);
    add(all.events, effects.events);
    if (effects.finished) all.finished = effects.finished;
  }

  Endpoint worker(WorkerId w) const { return {Role::worker, w, core->membership().workers[w]}; }
  Endpoint server(ServerId s) const { return {Role::server, s, core->membership().servers[s]}; }

  /// What was said of one kind, and is forgotten.
  template <class M>
  std::vector<M> said() {
    return take_said<M>(all.send);
  }
  template <class M>
  std::vector<Endpoint> told() {
    std::vector<Endpoint> to;
    std::erase_if(all.send, [&](const Envelope& e) {
      if (std::holds_alternative<M>(e.body)) to.push_back(e.to);
      return std::holds_alternative<M>(e.body);
    });
    return to;
  }

  /// Worker `w` asks; what it is dealt, if anything.
  std::optional<Work> ask(WorkerId w, uint64_t number) {
    hear(worker(w), WorkRequest{number});
    const auto work = said<Work>();
    if (work.empty()) return {};
    return work.back();
  }
  void finish(WorkerId w, const Work& work) {
    hear(worker(w), WorkDone{work.number, work.kind, work.step, {1, 1, work.range.count}});
  }
  /// Both workers take steps until nothing more is dealt; the number of the next request of each.
  uint64_t take_steps(uint64_t number = 1) {
    while (take_step(number)) ++number;
    return number;
  }
  /// Both workers ask before one has finished; false where there is no work for both.
  bool take_step(uint64_t number = 1) {
    const auto first = ask(0, number), second = ask(1, number);
    if (!first || !second) return false;
    finish(0, *first);
    finish(1, *second);
    return true;
  }
  void answer_statistics() {
    const uint64_t round = said<StatsRequest>().at(0).round;
    for (ServerId s = 0; s < 2; ++s) hear(server(s), StatsReply{round, {{s, 3, 2}}, 1, 0, 0});
  }
  void answer_snapshots() {
    const uint64_t round = said<Snapshot>().at(0).round;
    for (ServerId s = 0; s < 2; ++s) hear(server(s), SnapshotReply{round, {{1 - s, Tensor::zeros({32}), {}, 1}}});
  }

  CoordinatorOptions options;
  std::optional<std::vector<CoordinatorCore::Dealt>> order;
  std::unique_ptr<CoordinatorCore> core;
  CoordinatorCore::Effects all;
};

}  // namespace troupe::ps::test
