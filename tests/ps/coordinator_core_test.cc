#include <boost/test/unit_test.hpp>

#include <algorithm>

#include <troupe/ps/control/coordinator_core.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(coordinator_core)

namespace {

const Policy kSync{Mode::sync}, kAsync{Mode::async}, kSsp{Mode::ssp, 1};
constexpr Endpoint kCoordinator{Role::coordinator, 0, 1}, kNode{Role::node, 0, 1};

/// A coordinator of one server and `workers` workers, whose answers are given by hand.
class Run {
 public:
  explicit Run(Policy policy, size_t workers = 2) {
    options.layers = {{"fc1", 16, {{"fc1.weight", Shape{16}, 0}}}};
    options.policies = {policy};
    options.dealer.train_samples = 100;
    options.dealer.worker_batch.assign(workers, 2);
    options.dealer.global_batch = static_cast<int64_t>(2 * workers);
    options.max_restarts = 10;
    options.servers_recover = true;
  }

  /// Up to where the actors are there and the first membership is on its way to the server.
  void spawn() {
    core = CoordinatorCore::make(options).value();
    take(core->start());
    for (const Endpoint& who : everybody()) hear(kNode, SpawnAck{who});
  }
  /// Over nodes that hold everything, with replicas: up to where these are equal to their servers, or not yet.
  void over_nodes(uint32_t nodes, bool synced = true) {
    options.roster.nodes = nodes;
    options.replicas = true;
    options.servers_recover = false;
    core = CoordinatorCore::make(options).value();
    for (uint32_t n = 0; n < nodes; ++n) {
      Hello hello;
      hello.place = n;
      hear({Role::node, kUnassigned, 7 + n}, hello);
      hear({Role::node, n, 1}, Ready{options.layers, options.dealer.train_samples, options.test_samples, ""});
    }
    acknowledge_orders();
    acknowledge_orders();
    for (ServerId s = 0; s < options.layout.servers && synced; ++s)
      hear({Role::replica, s, 1}, Synced{{Role::server, s, 1}});
  }
  void acknowledge_orders() {
    for (const Spawn& order : said<Spawn>()) hear({Role::node, 0, 1}, SpawnAck{order.who});
  }
  void join() {
    sent.clear();
    hear(server(), MembershipAck{});
    for (WorkerId w = 0; w < core->membership().workers.size(); ++w) hear(worker(w), MembershipAck{});
    std::erase_if(sent, [](const Envelope& e) { return std::holds_alternative<Membership>(e.body); });
  }
  void replace(const Endpoint& who) {
    hear(kNode, Down{who, "test"});
    Endpoint next = who;
    ++next.incarnation;
    hear(kNode, SpawnAck{next});
  }

  void hear(const Endpoint& from, Message body) {
    take(core->handle({from, kCoordinator, core->membership().generation, std::move(body)}));
  }
  void take(CoordinatorCore::Effects effects) {
    for (Envelope& e : effects.send) sent.push_back(std::move(e));
  }

  Endpoint worker(WorkerId w) const { return {Role::worker, w, core->membership().workers[w]}; }
  Endpoint server() const { return {Role::server, 0, core->membership().servers[0]}; }
  std::vector<Endpoint> everybody() const {
    std::vector<Endpoint> all = {server()};
    for (WorkerId w = 0; w < core->membership().workers.size(); ++w) all.push_back(worker(w));
    return all;
  }

  /// What was said of one kind since the last call.
  template <class M>
  std::vector<M> said() {
    std::vector<M> messages;
    for (const Envelope& e : sent)
      if (const auto* m = std::get_if<M>(&e.body)) messages.push_back(*m);
    sent.clear();
    return messages;
  }

  CoordinatorOptions options;
  std::unique_ptr<CoordinatorCore> core;
  std::vector<Envelope> sent;
};

}  // namespace

BOOST_AUTO_TEST_CASE(AGenerationNeverChangesItsMembers) {
  Run run(kSync);
  run.spawn();
  BOOST_TEST(run.said<Membership>().size() == 1u);
  run.hear(kNode, Down{run.worker(0), "test"});
  run.take(run.core->tick());
  BOOST_TEST(run.said<Membership>().empty());
  run.hear(kNode, SpawnAck{run.worker(0)});
  const auto next = run.said<Membership>();
  BOOST_REQUIRE(next.size() == 1u);
  BOOST_TEST(next[0].generation == 2u);
  BOOST_TEST(next[0].workers[0] == 2u);
  BOOST_TEST(next[0].rebase.has_value());  // nobody has begun
}

BOOST_AUTO_TEST_CASE(AnAcknowledgementOfAnOlderGenerationCountsForNothing) {
  Run run(kSync);
  run.spawn();
  run.sent.clear();
  const Generation now = run.core->membership().generation;
  run.take(run.core->handle({run.server(), kCoordinator, now - 1, MembershipAck{}}));
  BOOST_TEST(run.said<Membership>().empty());
  run.hear(run.server(), MembershipAck{});
  BOOST_TEST(run.said<Membership>().size() == 2u);  // to both workers
}

BOOST_AUTO_TEST_CASE(NothingIsDealtWhileAGenerationBegins) {
  Run run(kAsync);
  run.spawn();
  run.join();
  run.replace(run.server());
  run.hear(run.worker(0), WorkRequest{1});
  BOOST_TEST(run.said<Work>().empty());
  run.join();
  BOOST_TEST(run.said<Work>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(WhatALostWorkerHadBegunIsCompletedBeforeThePoliciesChange) {
  Run run(kSsp);
  run.spawn();
  run.join();
  run.hear(run.worker(0), WorkRequest{1});
  run.hear(run.worker(1), WorkRequest{1});
  const auto first = run.said<Work>();
  BOOST_REQUIRE(first.size() == 2u);
  BOOST_TEST(run.core->change_policies({{"*", kAsync}}).has_value());
  run.replace(run.worker(1));
  run.join();
  run.hear(run.worker(1), WorkRequest{1});
  const auto again = run.said<Work>();
  BOOST_REQUIRE(again.size() == 1u);
  BOOST_TEST(again[0].step == first[1].step);
  BOOST_TEST((again[0].range == first[1].range));
}

BOOST_AUTO_TEST_CASE(ThePoliciesChangeOnceTheServersHaveAppliedTheLastVerdict) {
  Run run(kSync, 1);
  run.options.clip_norm = 1;
  run.spawn();
  run.join();
  BOOST_TEST(run.core->change_policies({{"*", kAsync}}).has_value());
  run.hear(run.worker(0), WorkRequest{1});
  BOOST_TEST(run.said<Membership>().empty());
  run.hear(run.server(), SnapshotReply{1, {}});
  BOOST_TEST(run.said<Membership>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(AWorkerThatMissedTheVerdictIsToldAgain) {
  Run run({Mode::all_reduce});
  run.options.clip_norm = 1;
  run.spawn();
  run.join();
  run.said<Work>();
  run.hear(run.worker(0), Partial{0, 4, true, ""});
  BOOST_TEST(run.said<Verdict>().size() == 2u);
  run.hear(run.worker(1), Partial{0, 4, true, ""});
  const auto again = run.said<Verdict>();
  BOOST_REQUIRE(again.size() == 1u);
  BOOST_TEST(again[0].scale == 0.5);
}

BOOST_AUTO_TEST_CASE(APartialOfAnOlderGenerationOrAStepLongPastDecidesNothing) {
  Run run(kSync);
  run.options.clip_norm = 1;
  run.spawn();
  run.join();
  for (Step step = 0; step < 6; ++step) run.hear(run.server(), Partial{step, 4, true, ""});
  BOOST_TEST(run.said<Verdict>().size() == 6u);
  run.hear(run.server(), Partial{0, 4, true, ""});
  run.take(run.core->handle({run.server(), kCoordinator, 0, Partial{6, 4, true, ""}}));
  BOOST_TEST(run.said<Verdict>().empty());
}

BOOST_AUTO_TEST_CASE(PartialsOfStepsThatNobodyWasDealtTakeNoMemoryAndHideNone) {
  Run run({Mode::all_reduce});
  run.options.clip_norm = 1;
  run.spawn();
  run.join();
  run.hear(run.worker(0), WorkRequest{1});
  run.hear(run.worker(1), WorkRequest{1});
  for (Step step = 100; step < 110; ++step) run.hear(run.worker(1), Partial{step, 4, true, ""});
  const size_t bytes = run.core->image().size();
  for (Step step = 110; step < 2000; ++step) run.hear(run.worker(1), Partial{step, 4, true, ""});
  BOOST_TEST(run.core->image().size() == bytes);
  run.hear(run.worker(1), Partial{-1, 4, true, ""});
  BOOST_TEST(run.core->image().size() == bytes);
  BOOST_TEST(run.said<Verdict>().empty());
  run.hear(run.worker(0), Partial{0, 4, true, ""});
  BOOST_TEST(run.said<Verdict>().size() == 2u);
}

BOOST_AUTO_TEST_CASE(WhenADroppedWorkerWasTheFurthestTheOthersGoOnFromThere) {
  Run run(kAsync);
  run.options.on_loss = OnLoss::shrink;
  run.spawn();
  run.join();
  for (const uint64_t number : {1, 2}) {
    run.hear(run.worker(1), WorkRequest{number});
    run.hear(run.worker(1), WorkDone{number, Work::Kind::train, static_cast<Step>(number) - 1});
  }
  run.hear(run.worker(0), WorkRequest{1});
  run.hear(kNode, Down{run.worker(1), "test"});
  run.hear(run.server(), MembershipAck{});
  run.hear(run.worker(0), MembershipAck{});
  run.hear(run.worker(0), WorkDone{1, Work::Kind::train, 0});
  for (uint64_t number = 2; run.said<Spawn>().empty(); ++number) {  // until the boundary
    BOOST_REQUIRE(number < 5);
    run.hear(run.worker(0), WorkRequest{number});
    if (number > 2) run.hear(run.worker(0), WorkDone{number - 1, Work::Kind::train, static_cast<Step>(number) - 2});
  }
  run.hear(kNode, SpawnAck{{Role::worker, 1, 2}});
  BOOST_REQUIRE(run.core->membership().rebase.has_value());
  BOOST_TEST(*run.core->membership().rebase == 2);
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatWasStartedAgainBeforeItsRunBeginsIt) {
  Run run(kAsync);
  run.core = CoordinatorCore::make(run.options).value();
  run.take(run.core->recovered());
  BOOST_TEST(run.said<Spawn>().size() == 3u);
}

BOOST_AUTO_TEST_CASE(AServerLostTogetherWithItsReplicaEndsTheRun) {
  Run run(kAsync);
  run.options.layout.servers = 2;
  run.options.roster.lease_ms = 1000;
  run.over_nodes(2);
  run.core->set_now_ms(5000);
  const auto lost = run.core->tick();
  BOOST_REQUIRE(lost.finished.has_value());
  // Node 0 is lost first: it holds server 1, whose replica is on node 1.
  BOOST_TEST(lost.finished->failure.find("server 1 ended") == 0u, lost.finished->failure);
}

BOOST_AUTO_TEST_CASE(AReplicaThatHasNotCaughtUpDoesNotTakeOver) {
  Run run(kAsync);
  run.over_nodes(2, false);
  const Envelope down{{Role::node, 1, 1}, kCoordinator, run.core->membership().generation, Down{run.server(), "test"}};
  const auto lost = run.core->handle(down);
  BOOST_REQUIRE(lost.finished.has_value());
  BOOST_TEST(lost.finished->failure.find("its replica had not caught up") != std::string::npos, lost.finished->failure);
}

BOOST_AUTO_TEST_CASE(AServerMovesOnceItsCopyIsWhole) {
  Run run(kAsync);
  run.over_nodes(3, false);
  const auto moved = [&] {
    return std::ranges::any_of(run.said<Spawn>(), [](const Spawn& order) { return order.takes_over.has_value(); });
  };
  run.hear({Role::node, 2, 1}, Leave{});  // which holds the server
  BOOST_TEST(!moved());
  BOOST_TEST(run.server().incarnation == 1u);
  run.hear({Role::replica, 0, 1}, Synced{run.server()});
  BOOST_TEST(moved());
  BOOST_TEST(run.server().incarnation == 2u);
}

// All nodes want to leave while a server moves: its replica cannot take over anywhere else.
BOOST_AUTO_TEST_CASE(AReplicaTakesOverWhereItIsThoughItsNodeLeaves) {
  Run run(kAsync);
  run.over_nodes(3);
  run.sent.clear();
  std::map<Endpoint, Endpoint> node_of;  // of replicas that were ordered later
  int take_overs = 0;
  const auto look = [&] {
    for (const Envelope& e : run.sent)
      if (const auto* order = std::get_if<Spawn>(&e.body)) {
        if (order->who.role == Role::replica) node_of[order->who] = e.to;
        if (!order->takes_over || !node_of.count(*order->takes_over)) continue;
        BOOST_TEST((e.to == node_of.at(*order->takes_over)));
        ++take_overs;
      }
    run.acknowledge_orders();
  };
  run.hear({Role::node, 2, 1}, Leave{});  // holds the server: its replica takes over,
  look();
  look();
  run.hear({Role::node, 0, 1}, Leave{});  // and shall move on, with a replica where it goes
  run.hear({Role::node, 1, 1}, Leave{});
  look();
  look();
  for (Incarnation i = 2; i < 4; ++i) run.hear({Role::replica, 0, i}, Synced{run.server()});
  look();
  look();
  BOOST_TEST(take_overs > 0);
  BOOST_TEST(run.core->status().phase != "ended");
}

BOOST_AUTO_TEST_CASE(UnderShrinkTheRunStopsWhenTheLastWorkersItNeedsLeave) {
  Run run(kAsync);
  run.options.on_loss = OnLoss::shrink;
  run.over_nodes(2);
  run.hear({Role::node, 0, 1}, Leave{});
  run.hear({Role::node, 1, 1}, Leave{});
  BOOST_TEST(run.core->status().workers_dropped == 1);
  BOOST_TEST(run.core->status().phase != "ended");  // as it would be if it had failed
}

// Worker 0 gets the piece of worker 1, which is dropped, and its process leaves with both of them.
BOOST_AUTO_TEST_CASE(AnEvaluationEndsThoughWhoeverTookAPieceOfItIsReplaced) {
  Run run(kAsync);
  run.options.on_loss = OnLoss::shrink;
  run.options.test_samples = 10;
  run.options.dealer.train_samples = 4;
  run.options.dealer.epochs = 1;
  run.over_nodes(3);
  run.join();
  for (uint64_t number = 1; number <= 2; ++number)
    for (WorkerId w = 0; w < 2; ++w) run.hear(run.worker(w), WorkRequest{number});
  const auto train = run.said<Work>();
  BOOST_REQUIRE(train.size() == 2u);
  for (WorkerId w = 0; w < 2; ++w) run.hear(run.worker(w), WorkDone{1, Work::Kind::train, train[w].step, {1, 1, 2}});
  for (const Work& work : run.said<Work>()) BOOST_REQUIRE((work.kind == Work::Kind::evaluate));
  run.hear({Role::node, 1, 1}, Leave{});
  run.hear({Role::node, 0, 1}, Leave{});
  int64_t evaluated = 0;
  for (int i = 0; i < 8; ++i) {
    run.acknowledge_orders();
    run.join();
    run.hear(run.worker(0), WorkRequest{static_cast<uint64_t>(i + 1)});
    for (const Work& work : run.said<Work>()) {
      BOOST_TEST((work.kind == Work::Kind::evaluate));
      evaluated += work.range.count;
      run.hear(run.worker(0), WorkDone{work.number, work.kind, work.step, {1, 1, work.range.count}});
    }
  }
  BOOST_TEST(evaluated == 10);
}

BOOST_AUTO_TEST_CASE(ARunThatIsStoppedBeforeItBeganWasInterrupted) {
  Run run(kAsync);
  run.options.roster.nodes = 2;
  run.core = CoordinatorCore::make(run.options).value();
  const auto stopped = run.core->stop();
  BOOST_REQUIRE(stopped.finished.has_value());
  BOOST_TEST((stopped.finished->outcome == Outcome::interrupted));
  BOOST_TEST(stopped.finished->failure ==
             "stopped before it began: 0 of 2 nodes have joined; missing: node 0, node 1");
}

BOOST_AUTO_TEST_SUITE_END()
