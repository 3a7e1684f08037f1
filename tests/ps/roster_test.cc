#include <boost/test/unit_test.hpp>

#include <troupe/ps/control/roster.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(roster)

namespace {

const LayerSpec kLayer{"fc1", 16, {{"fc1.weight", Shape{4, 4}, 0}}};

/// A roster, and what it says to the nodes that a test plays.
struct World {
  explicit World(int64_t nodes, uint32_t workers = 2, uint32_t servers = 2) {
    options.nodes = nodes;
    options.workers = workers;
    options.servers = servers;
    options.lease_ms = 1000;
    options.start_timeout_ms = 5000;
    options.replace_ms = 500;
    options.layers = {kLayer};
    options.train_samples = 100;
    options.config_hash = "c0ffee";
    roster.emplace(options);
  }

  Roster::Effects hear(const Endpoint& from, Message body) {
    Roster::Effects out;
    roster->handle(out, {from, {}, 0, std::move(body)}, {});
    return out;
  }
  Roster::Effects tick_at(int64_t ms) {
    roster->set_now_ms(ms);
    Roster::Effects out;
    roster->tick(out);
    return out;
  }
  /// The endpoint that the roster gives to a process of this number.
  Endpoint welcome(int64_t place, Incarnation process, Hello hello = {}) {
    hello.name = cat("host:", process);
    hello.place = place;
    const auto out = hear({Role::node, kUnassigned, process}, hello);
    BOOST_REQUIRE(out.say.size() == 1 && std::holds_alternative<Welcome>(out.say[0].second));
    return std::get<Welcome>(out.say[0].second).node;
  }
  Endpoint join(int64_t place, Incarnation process, Hello hello = {}) {
    const Endpoint node = welcome(place, process, hello);
    hear(node, ready());
    return node;
  }
  Ready ready() const { return {{kLayer}, 100, 0, ""}; }

  RosterOptions options;
  std::optional<Roster> roster;
};

std::string rejection(const Roster::Effects& out) {
  for (const auto& [to, body] : out.say)
    if (const auto* rejected = std::get_if<Rejected>(&body)) return rejected->reason;
  return "";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(ARunInOneProcessPlacesEverythingThere) {
  World w(0);
  BOOST_TEST(w.roster->complete());
  w.roster->place_all();
  BOOST_TEST(*w.roster->home(Role::worker, 1) == (Endpoint{Role::node, 0, 1}));
  BOOST_TEST(*w.roster->home(Role::server, 0) == (Endpoint{Role::node, 0, 1}));
}

BOOST_AUTO_TEST_CASE(WithAsManyNodesAsSlotsEachHoldsOne) {
  World w(4);
  for (int i = 0; i < 4; ++i) w.join(i, 10 + i);
  BOOST_TEST(w.roster->complete());
  w.roster->place_all();
  for (const Endpoint& node : w.roster->ready()) BOOST_TEST(w.roster->slots_of(node).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AHelloSaidAgainGetsTheSamePlace) {
  World w(1);
  const Endpoint first = w.welcome(-1, 7);
  BOOST_TEST(w.welcome(-1, 7) == first);
  BOOST_TEST(w.welcome(-1, 8) != first);
}

BOOST_AUTO_TEST_CASE(ANodeGetsOnlyWhatItTakes) {
  World w(2);
  Hello workers, servers;
  workers.takes_servers = servers.takes_workers = false;
  w.join(0, 1, workers);
  BOOST_TEST(!w.roster->complete());
  const Endpoint b = w.join(1, 2, servers);
  w.roster->place_all();
  BOOST_TEST(*w.roster->home(Role::server, 0) == b);
  BOOST_TEST(*w.roster->home(Role::server, 1) == b);
  BOOST_TEST(w.roster->home(Role::worker, 0)->index == 0u);
}

BOOST_AUTO_TEST_CASE(NodesNoneOfWhichTakesServersAreNotEnough) {
  World w(1);
  Hello workers;
  workers.takes_servers = false;
  w.join(0, 1, workers);
  BOOST_TEST(!w.roster->complete());
  BOOST_TEST(w.roster->missing() == "1 of 1 nodes have joined; none of them takes servers");
}

BOOST_AUTO_TEST_CASE(AnotherModelIsRefusedWithBothSides) {
  World w(1);
  Ready other = w.ready();
  other.layers[0].params[0].shape = Shape{2, 8};
  const auto out = w.hear(w.welcome(0, 1), other);
  BOOST_TEST(holds(rejection(out), "fc1.weight [2, 8]"));
  BOOST_TEST(holds(rejection(out), "fc1.weight [4, 4]"));
  BOOST_TEST(!w.roster->complete());
}

BOOST_AUTO_TEST_CASE(AnotherConfigIsRefusedWithBothHashes) {
  World w(1);
  Ready other = w.ready();
  other.config_hash = "beef";
  const std::string why = rejection(w.hear(w.welcome(0, 1), other));
  BOOST_TEST(holds(why, "beef"));
  BOOST_TEST(holds(why, "c0ffee"));
}

BOOST_AUTO_TEST_CASE(OtherDataIsRefused) {
  World w(1);
  Ready other = w.ready();
  other.train_samples = 99;
  BOOST_TEST(holds(rejection(w.hear(w.welcome(0, 1), other)), "99 training"));
}

BOOST_AUTO_TEST_CASE(WhoIsMissingAtTheStartIsNamed) {
  World w(3);
  w.tick_at(0);
  w.roster->set_now_ms(4500);
  w.join(1, 1);
  w.welcome(2, 2);
  BOOST_TEST(w.tick_at(5000).failure == "");
  BOOST_TEST(w.tick_at(5001).failure ==
             "the run did not begin within 5 s: 1 of 3 nodes have joined; missing: node 0, node 2 (host:2 prepares)");
}

BOOST_AUTO_TEST_CASE(ANodeThatSaysNothingForALeaseIsLost) {
  World w(1);
  const Endpoint node = w.join(0, 1);
  BOOST_TEST(w.tick_at(1000).lost.empty());
  w.hear(node, Heartbeat{});
  BOOST_TEST(w.tick_at(2000).lost.empty());
  const auto out = w.tick_at(2001);
  BOOST_REQUIRE(out.lost.size() == 1);
  BOOST_TEST(out.lost[0].first == node);
  BOOST_TEST(!w.roster->knows(node));
}

BOOST_AUTO_TEST_CASE(ABrokenConnectionLeavesTwoHeartbeats) {
  World w(1);
  const Endpoint node = w.join(0, 1);
  w.roster->link_lost(0);
  BOOST_TEST(w.tick_at(200).lost.empty());
  BOOST_TEST(w.tick_at(201).lost.size() == 1u);
  w.join(0, 2);
  w.roster->link_lost(0);
  w.hear({Role::node, 0, node.incarnation + 1}, Heartbeat{});
  BOOST_TEST(w.tick_at(500).lost.empty());  // it lives: only its connection broke
}

BOOST_AUTO_TEST_CASE(ANewProcessInAPlaceMeansThatTheOldOneIsGone) {
  World w(1);
  const Endpoint node = w.join(0, 1);
  Hello hello;
  hello.name = "host:2";
  hello.place = 0;
  const auto out = w.hear({Role::node, kUnassigned, 2}, hello);
  BOOST_REQUIRE(out.lost.size() == 1);
  BOOST_TEST(out.lost[0].first == node);
  BOOST_TEST(out.lost[0].second == "node 0 (host:1): its place was taken by host:2");
  BOOST_TEST(std::get<Welcome>(out.say[0].second).node.incarnation == node.incarnation + 1);
}

BOOST_AUTO_TEST_CASE(WhosePlaceAnotherTookIsToldToEndAndHoldsNobodysLease) {
  World w(1);
  const Endpoint first = w.join(0, 1), second = w.join(0, 2);
  w.tick_at(900);
  BOOST_TEST(holds(rejection(w.hear(first, Heartbeat{})), "goes on without this process"));
  BOOST_TEST(!w.hear(first, Leave{true}).lost.size());
  const auto late = w.tick_at(1001).lost;
  BOOST_REQUIRE(late.size() == 1);
  BOOST_TEST(late[0].first == second);
}

BOOST_AUTO_TEST_CASE(WhoeverWasTakenForDeadIsToldToEnd) {
  World w(1);
  const Endpoint node = w.join(0, 1);
  w.tick_at(1001);
  BOOST_TEST(holds(rejection(w.hear(node, Heartbeat{})), "goes on without this process"));
}

BOOST_AUTO_TEST_CASE(WhatALostNodeHeldWaitsForANewProcessAndThenGoesToAnother) {
  World w(2);
  w.join(0, 1);
  w.join(1, 2);
  w.roster->place_all();
  const Endpoint before = *w.roster->home(Role::worker, 0);
  w.roster->vacate(Role::worker, 0);
  BOOST_TEST(!w.roster->place(Role::worker, 0).has_value());  // both nodes hold something
  w.roster->set_now_ms(500);
  BOOST_TEST(w.roster->place(Role::worker, 0).has_value());
  w.roster->vacate(Role::worker, 0);
  const Endpoint spare = w.join(2, 3);
  BOOST_TEST(*w.roster->place(Role::worker, 0) == spare);
  BOOST_TEST(spare != before);
}

BOOST_AUTO_TEST_CASE(ACoordinatorThatStoodStillGivesEverybodyAnotherLease) {
  World w(1);
  const Endpoint node = w.join(0, 1);
  w.roster->place_all();
  w.tick_at(0);
  BOOST_TEST(w.tick_at(50'000).lost.empty());
  w.hear(node, Heartbeat{});
  const auto lost = w.tick_at(51'000 - 1);
  BOOST_TEST(lost.lost.empty());
  BOOST_TEST(lost.failure == "");
}

BOOST_AUTO_TEST_CASE(WhereNobodyAnswersItAfterThatAnotherMayHaveItsPlace) {
  World w(2);
  w.join(0, 1);
  w.join(1, 2);
  w.roster->place_all();
  w.tick_at(0);
  w.tick_at(50'000);
  BOOST_TEST(w.tick_at(51'000).failure == "");
  BOOST_TEST(
      holds(w.tick_at(51'001).failure, "this coordinator stood still for 50000 ms, and no node has answered it"));
}

BOOST_AUTO_TEST_CASE(ANodeThatLeavesGetsNothingMore) {
  World w(1, 1, 1);
  const Endpoint node = w.join(0, 1);
  w.roster->place_all();
  BOOST_TEST(w.hear(node, Leave{}).leaving.size() == 1u);
  BOOST_TEST(w.hear(node, Leave{}).leaving.empty());  // it says so until it may go
  BOOST_TEST(w.roster->leaving(node));
  w.roster->set_now_ms(10'000);
  w.roster->vacate(Role::worker, 0);
  BOOST_TEST(!w.roster->place(Role::worker, 0).has_value());
}

BOOST_AUTO_TEST_CASE(WhatIsNeededAndNobodyElseTakesStaysOnANodeThatLeaves) {
  World w(1, 1, 1);
  const Endpoint node = w.join(0, 1);
  w.roster->place_all();
  w.hear(node, Leave{});
  w.roster->vacate(Role::server, 0);
  w.roster->place(Role::server, 0, true);
  w.roster->set_now_ms(500);
  BOOST_TEST(*w.roster->place(Role::server, 0, true) == node);
  const Endpoint other = w.join(1, 2);
  w.roster->vacate(Role::server, 0);
  BOOST_TEST(*w.roster->place(Role::server, 0, true) == other);
}

BOOST_AUTO_TEST_CASE(RoutesAreSaidAgainToANodeThatMissedThem) {
  World w(1);
  const Endpoint node = w.join(0, 1);
  const uint64_t version = w.roster->next_routes({}).version;
  Heartbeat beat;
  beat.routes = version - 1;
  const auto out = w.hear(node, beat);
  BOOST_REQUIRE(out.say.size() == 2);
  BOOST_TEST(std::get<Routes>(out.say[1].second).version == version);
  beat.routes = version;
  BOOST_TEST(w.hear(node, beat).say.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
