#include <boost/test/unit_test.hpp>

#include <array>
#include <deque>
#include <map>
#include <utility>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/combined_push.h>
#include <troupe/ps/transport/combining_transport.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

namespace {

const Endpoint kServer{Role::server, 0, 1};

/// What leaves a process, and where what comes in is put.
class Wire final : public Transport {
 public:
  void attach(const Endpoint& endpoint, Sink sink) override { sinks[endpoint] = std::move(sink); }
  void detach(const Endpoint& endpoint) override { sinks.erase(endpoint); }
  void send(Envelope envelope) override { sent.push_back(std::move(envelope)); }
  bool reliable() const override { return false; }

  bool deliver(const Envelope& envelope) {
    const auto sink = sinks.find(envelope.to);
    if (sink == sinks.end()) return false;
    const auto put = sink->second;
    put(std::make_shared<const Envelope>(envelope));
    return true;
  }

  std::map<Endpoint, Sink> sinks;
  std::deque<Envelope> sent;
};

/// A process with a combining transport, whose sums the test has made.
struct Process {
  Process() : wire(std::make_shared<Wire>()) {
    transport = std::make_shared<CombiningTransport>(
        wire, CombiningOptions{.combines = [](LayerId) { return true; },
                               .later = [this](std::function<void()> task) { later.push_back(std::move(task)); }});
  }
  void sum() {
    while (!later.empty()) {
      auto task = std::move(later.front());
      later.pop_front();
      task();
    }
  }
  std::shared_ptr<Wire> wire;
  std::deque<std::function<void()>> later;
  std::shared_ptr<CombiningTransport> transport;
};

/// Workers 0 to 2 of a sync layer, in one process. Each has pushed step 0, for itself.
struct World {
  World() {
    for (WorkerId w = 0; w < 3; ++w) live(w);
    join();
    for (WorkerId w = 0; w < 3; ++w) push(w, 0, 1);
    first = pushed();
  }
  void live(WorkerId w) {
    process.transport->attach(worker(w), [this, w](const EnvelopePtr& e) { heard[w].push_back(*e); });
  }
  Endpoint worker(WorkerId w) const { return {Role::worker, w, shard.workers[w]}; }
  void join() {
    for (WorkerId w = 0; w < 3; ++w) {
      Envelope m = shard.membership();
      m.to = worker(w);
      process.wire->deliver(m);
      heard[w].clear();
    }
  }
  void move_away(WorkerId w) {
    ++shard.workers[w];
    ++shard.generation;
    join();
  }
  void say(WorkerId w, Message body) {
    process.transport->send({worker(w), kServer, shard.generation, std::move(body)});
  }
  void pull(WorkerId w, Step step) { say(w, Pull{0, step, 10 * static_cast<uint64_t>(step) + w}); }
  void push(WorkerId w, Step step, float value) {
    say(w, Push{static_cast<uint64_t>(step) + 1, 0, step, step, 1, {ShardWorld::filled(ShardWorld::kCount, value)}});
    process.sum();
  }
  void acknowledge(WorkerId w, Step step) {
    process.wire->deliver({kServer, worker(w), shard.generation, PushAck{static_cast<uint64_t>(step) + 1, 0, step}});
  }
  /// "0: 3 of 2 covers 1, 1: 0": sender, sum, samples and who is covered, of every push since the last call.
  std::string pushed() {
    std::string text;
    for (const Envelope& e : std::exchange(process.wire->sent, {})) {
      const auto* push = std::get_if<Push>(&e.body);
      if (!push) continue;
      text += cat(text.empty() ? "" : ", ", e.from.index, ": ");
      text += push->samples ? cat(push->gradients[0].span<float>()[0], " of ", push->samples) : "0";
      for (const WorkerId other : covered_by(*push, 1)) text += cat(" covers ", other);
    }
    return text;
  }

  ShardWorld shard{{{Mode::sync, 0}}, 3};
  Process process;
  std::map<WorkerId, std::vector<Envelope>> heard;
  std::string first;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(combining_transport)

BOOST_AUTO_TEST_CASE(AnActorsFirstPushGoesForItself) {
  BOOST_TEST(World().first == "0: 1 of 1, 1: 1 of 1, 2: 1 of 1");
}

BOOST_AUTO_TEST_CASE(AStepLeavesTheProcessOnceAndTheOthersFollowWhenItIsStored) {
  World w;
  for (WorkerId k = 0; k < 3; ++k) w.pull(k, 1);
  w.push(2, 1, 4);
  w.push(0, 1, 1);
  BOOST_TEST(w.pushed() == "");
  w.push(1, 1, 2);
  BOOST_TEST(w.pushed() == "0: 7 of 3 covers 1 covers 2");
  w.push(1, 1, 2);  // said again
  BOOST_TEST(w.pushed() == "");
  w.push(0, 1, 1);
  BOOST_TEST(w.pushed() == "0: 7 of 3 covers 1 covers 2");
  w.acknowledge(0, 1);
  BOOST_TEST(w.pushed() == "1: 0, 2: 0");
  w.push(2, 1, 4);
  BOOST_TEST(w.pushed() == "2: 0");
}

BOOST_AUTO_TEST_CASE(AWorkerAloneIsLeftAsItIs) {
  World w;
  w.pull(1, 1);
  w.push(1, 1, 2);
  BOOST_TEST(w.pushed() == "1: 2 of 1");
  w.push(1, 1, 2);
  BOOST_TEST(w.pushed() == "1: 2 of 1");
}

BOOST_AUTO_TEST_CASE(WhoComesLatePushesForItself) {
  World w;
  for (WorkerId k : {0u, 1u}) w.pull(k, 1);
  w.push(0, 1, 1);
  w.push(1, 1, 2);
  BOOST_TEST(w.pushed() == "0: 3 of 2 covers 1");
  w.pull(2, 1);
  w.push(2, 1, 4);
  BOOST_TEST(w.pushed() == "2: 4 of 1");
}

BOOST_AUTO_TEST_CASE(WhoIsAheadIsNotWaitedFor) {
  World w;
  for (WorkerId k : {0u, 1u}) w.pull(k, 1);
  w.push(0, 1, 1);
  w.pull(1, 2);  // it came from a process where it contributed
  BOOST_TEST(w.pushed() == "0: 1 of 1");
}

BOOST_AUTO_TEST_CASE(WhoMovesAwayIsNotWaitedFor) {
  World w;
  for (WorkerId k = 0; k < 3; ++k) w.pull(k, 1);
  w.push(0, 1, 1);
  w.push(1, 1, 2);
  BOOST_TEST(w.pushed() == "");
  w.move_away(2);
  w.process.sum();
  BOOST_TEST(w.pushed() == "0: 3 of 2 covers 1");
}

BOOST_AUTO_TEST_CASE(AfterASumThatMayBeStoredNobodyNewIsTakenIn) {
  World w;
  for (WorkerId k : {0u, 1u}) w.pull(k, 1);
  w.push(0, 1, 1);
  w.push(1, 1, 2);
  w.pushed();
  w.pull(2, 1);
  w.move_away(1);  // what was said may be stored or not
  w.push(2, 1, 4);
  BOOST_TEST(w.pushed() == "0: 1 of 1, 2: 4 of 1");
}

BOOST_AUTO_TEST_CASE(WeightsComeInOnceAndAllAreAnswered) {
  World w;
  w.pull(0, 3);
  w.pull(1, 3);
  BOOST_TEST(w.process.wire->sent.size() == 1u);
  const Tensor values = ShardWorld::filled(ShardWorld::kCount, 5);
  w.process.wire->deliver({kServer, w.worker(0), 1, PullReply{0, 3, 30, {values}}});
  w.pull(2, 3);
  BOOST_TEST(w.process.wire->sent.size() == 1u);
  for (WorkerId k = 0; k < 3; ++k) {
    BOOST_TEST_REQUIRE(w.heard[k].size() == 1u);
    const auto& reply = std::get<PullReply>(w.heard[k][0].body);
    BOOST_TEST(reply.ticket == 30 + k);
    BOOST_TEST(reply.values[0].buffer() == values.buffer());
  }
}

BOOST_AUTO_TEST_CASE(APullWhoseWorkerEndsIsSaidByTheNext) {
  World w;
  w.pull(0, 3);
  w.pull(1, 3);
  w.process.transport->detach(w.worker(0));
  w.pull(1, 3);
  BOOST_TEST(w.process.wire->sent.size() == 2u);
}

// What is attached may own an actor whose end says something; a lock that is held then is waited for without end.
BOOST_AUTO_TEST_CASE(WhatEndsWithItsSinkMaySendMessages) {
  World w;
  w.process.wire->sent.clear();
  const Endpoint last{Role::worker, 7, 1};
  auto owned = std::shared_ptr<int>(new int, [&](int* number) {
    delete number;
    w.process.transport->send({last, kServer, 1, Fault{"gone"}});
  });
  w.process.transport->attach(last, [owned = std::move(owned)](const EnvelopePtr&) {});
  w.process.transport->detach(last);
  BOOST_TEST(w.process.wire->sent.size() == 1u);
}

namespace {

/// Two processes with four workers, a lossy network and a real shard; workers and processes die and come back anywhere.
/// Worker w contributes (w + 1) in every step: a step moves the parameter by 10 / 4, whoever carries what.
class Storm {
 public:
  explicit Storm(uint64_t seed) : random_(seed), shard_({{Mode::sync, 0}}, 4) {
    for (auto& process : processes_) process = std::make_unique<Process>();
    shard_.run();
    for (WorkerId w = 0; w < 4; ++w) start(w);
    announce();
  }

  void run(int turns) {
    for (int i = 0; i < turns; ++i) turn();
    trouble_ = false;
    for (int i = 0; i < 4000; ++i) turn();
  }
  float value() const { return shard_.value(0); }
  int64_t combined() const { return combined_; }
  Step step() const {
    Step least = workers_[0].step;
    for (const Worker& w : workers_) least = std::min(least, w.step);
    return least;
  }

 private:
  struct Worker {
    size_t process = 0;
    Step step = 0;          ///< that it works on
    bool has_weights = false, pushed = false;
    Sequence sequence = 0;
  };

  Endpoint endpoint(WorkerId w) const { return {Role::worker, w, shard_.workers[w]}; }

  // A worker repeats the step that the others are at: the shard knows which it owes.
  void start(WorkerId w) {
    Worker& mine = workers_[w];
    mine = {random_.below(2), mine.step, false, false, 0};
    processes_[mine.process]->transport->attach(endpoint(w), [this, w](const EnvelopePtr& e) { hear(w, *e); });
  }
  void announce() {
    for (WorkerId w = 0; w < 4; ++w) {
      Envelope m = shard_.membership();
      m.to = endpoint(w);
      processes_[workers_[w].process]->wire->deliver(m);
    }
  }
  void restart(WorkerId w) {
    processes_[workers_[w].process]->transport->detach(endpoint(w));
    shard_.restart_worker(w);
    start(w);
  }
  void hear(WorkerId w, const Envelope& e) {
    Worker& mine = workers_[w];
    if (e.to != endpoint(w)) return;
    if (const auto* reply = std::get_if<PullReply>(&e.body); reply && reply->step == mine.step) mine.has_weights = true;
    if (const auto* ack = std::get_if<PushAck>(&e.body);
        ack && ack->step == mine.step && ack->sequence == mine.sequence) {
      ++mine.step;
      mine.has_weights = mine.pushed = false;
    }
  }
  void tick(WorkerId w) {
    Worker& mine = workers_[w];
    Message body = Pull{0, mine.step, static_cast<uint64_t>(mine.step)};
    if (mine.has_weights) {
      if (!mine.pushed) ++mine.sequence;
      mine.pushed = true;
      body = Push{mine.sequence, 0, mine.step, mine.step, 1,
                  {ShardWorld::filled(ShardWorld::kCount, static_cast<float>(w + 1))}};
    }
    processes_[mine.process]->transport->send({endpoint(w), kServer, shard_.generation, std::move(body)});
  }

  void turn() {
    Process& process = *processes_[random_.below(2)];
    switch (random_.below(trouble_ ? 40 : 36)) {
      case 36: return restart(static_cast<WorkerId>(random_.below(4))), announce();
      case 37: {  // a process dies with all that is in it
        const size_t dead = random_.below(2);
        auto fresh = std::make_unique<Process>();
        std::swap(processes_[dead], fresh);
        for (WorkerId w = 0; w < 4; ++w)
          if (workers_[w].process == dead) shard_.restart_worker(w), start(w);
        return announce();
      }
      default: break;
    }
    const uint64_t what = random_.below(4);
    if (what == 0) return tick(static_cast<WorkerId>(random_.below(4)));
    if (what == 1 && !process.later.empty()) {
      auto task = std::move(process.later.front());
      process.later.pop_front();
      return task();
    }
    if (what == 2 && !process.wire->sent.empty()) {
      const size_t which = random_.below(process.wire->sent.size());
      const Envelope envelope = process.wire->sent[which];
      if (!random_.chance(0.1)) process.wire->sent.erase(process.wire->sent.begin() + static_cast<ptrdiff_t>(which));
      if (random_.chance(0.1)) return;
      if (const auto* push = std::get_if<Push>(&envelope.body)) combined_ += !covered_by(*push, 1).empty();
      for (Envelope& reply : shard_.shard->handle(envelope)) {
        BOOST_REQUIRE(!std::holds_alternative<Refused>(reply.body) ||
                      std::get<Refused>(reply.body).reason != Refused::Reason::malformed);
        replies_.push_back(std::move(reply));
      }
    }
    if (what == 3 && !replies_.empty()) {
      const size_t which = random_.below(replies_.size());
      const Envelope envelope = replies_[which];
      if (!random_.chance(0.1)) replies_.erase(replies_.begin() + static_cast<ptrdiff_t>(which));
      if (!random_.chance(0.1))
        for (auto& p : processes_) p->wire->deliver(envelope);
    }
  }

  Random random_;
  ShardWorld shard_;
  std::array<std::unique_ptr<Process>, 2> processes_;
  std::array<Worker, 4> workers_;
  std::vector<Envelope> replies_;
  int64_t combined_ = 0;  ///< pushes of several workers that came to the shard
  bool trouble_ = true;
};

}  // namespace

BOOST_AUTO_TEST_CASE(EveryContributionCountsOnceWhateverIsLostMovesOrDies) {
  Step steps = 0;
  int64_t combined = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Storm storm(seed);
    storm.run(3000);
    steps += storm.step();
    combined += storm.combined();
    BOOST_TEST_REQUIRE(storm.step() > 10, "seed " << seed << " came to step " << storm.step());
    const float moved = -storm.value() / 2.5f;
    BOOST_TEST_REQUIRE((moved == static_cast<float>(storm.step()) || moved == static_cast<float>(storm.step() + 1)),
                       "seed " << seed << ": " << moved << " steps of gradient at step " << storm.step());
  }
  BOOST_TEST(steps > 5'000);
  BOOST_TEST(combined > 1'000);
}

BOOST_AUTO_TEST_SUITE_END()
