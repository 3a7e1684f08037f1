#include <boost/test/unit_test.hpp>

#include <tests/support/coordinator_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(coordinator_collective)

namespace {

/// Two processes with a worker each, on these hosts.
class World : public CoordinatorWorld {
 public:
  explicit World(std::vector<std::string> hosts) : CoordinatorWorld(kSync) {
    options.roster.nodes = static_cast<int64_t>(hosts.size());
    core = CoordinatorCore::make(options).value();
    take(core->start());
    for (uint32_t n = 0; n < hosts.size(); ++n) {
      Hello hello;
      hello.name = n == 0 ? "first" : "second";
      hello.place = n;
      hello.address.host = hosts[n];
      hear({Role::node, kUnassigned, 7 + n}, hello);
      hear({Role::node, n, 1}, Ready{options.layers, 20, 0, ""});
    }
    start_actors();
    join();
  }
  void start_actors() {
    for (const Spawn& order : said<Spawn>()) hear({Role::node, order.who.index % 2, 1}, SpawnAck{order.who});
  }

  void say(WorkerId w, const std::string& id = "", const std::string& device = "cuda") {
    hear(worker(w), CollectiveId{device, {}, id, false});
  }
  /// Both have spoken, and the lowest has made the id.
  void make_id() {
    say(0);
    say(1);
    say(0, "key");
  }
  void joined(WorkerId w) { hear(worker(w), CollectiveId{"cuda", {}, "", true}); }
  /// Time passes, in which the nodes are heard.
  void pass(int64_t seconds) {
    for (int64_t s = 0; s < seconds; ++s) {
      core->set_now_ms(now_ms_ += 1000);
      for (uint32_t n = 0; n < 2; ++n) hear({Role::node, n, 1}, Heartbeat{});
      take(core->tick());
    }
  }
  /// What was answered, and to whom: "0:[0 1] key, 1:[0 1] key".
  std::string answers() {
    std::string text;
    std::erase_if(all.send, [&](const Envelope& e) {
      const auto* m = std::get_if<CollectiveId>(&e.body);
      if (!m) return false;
      text += cat(text.empty() ? "" : ", ", e.to.index, ":[");
      for (const WorkerId w : m->members) text += cat(w == m->members[0] ? "" : " ", w);
      text += cat("]", m->id.empty() ? "" : " ", m->id, m->joined ? " joined" : "");
      return true;
    });
    return text;
  }

 private:
  int64_t now_ms_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(WorkersOfOneHostGetTheIdThatTheLowestMade) {
  World w({"a", "a"});
  w.say(1);
  BOOST_TEST(w.answers() == "");  // worker 0 has not spoken
  w.say(0);
  BOOST_TEST(w.answers() == "0:[0 1]");
  w.say(1);
  BOOST_TEST(w.answers() == "0:[0 1]");  // asked again, in case the first was lost
  w.say(0, "key");
  BOOST_TEST(w.answers() == "0:[0 1] key, 1:[0 1] key");
  w.say(1);
  BOOST_TEST(w.answers() == "1:[0 1] key");
}

BOOST_AUTO_TEST_CASE(OnlyTheLowestMakesTheId) {
  World w({"a", "a"});
  w.say(0);
  w.say(1, "another");
  BOOST_TEST(w.answers() == "0:[0 1]");
}

BOOST_AUTO_TEST_CASE(WorkersOfDifferentHostsAreAlone) {
  for (const auto& hosts : {std::vector<std::string>{"a", "b"}, {"", ""}}) {
    World w(hosts);
    w.say(0);
    w.say(1);
    BOOST_TEST(w.answers() == "0:[0], 1:[1]");
  }
}

BOOST_AUTO_TEST_CASE(WorkersWithoutDevicesAddUpByThemselves) {
  World w({"a", "a"});
  w.say(1, "", "cpu");
  w.say(0, "", "cpu");
  w.say(1, "", "cpu");
  BOOST_TEST(w.answers() == "0:[0], 1:[1]");
}

// What it pushed before it was lost may be stored, and be in a sum of none of those steps.
BOOST_AUTO_TEST_CASE(AGroupBeginsBehindWhatAWorkerWasDealtThatIsStartedAgain) {
  World w({"a", "a"});
  BOOST_TEST_REQUIRE(w.take_step(1));
  BOOST_TEST_REQUIRE(w.ask(1, 2).has_value());
  w.hear({Role::node, 1, 1}, Down{w.worker(1), "killed"});
  w.start_actors();
  w.join();
  w.make_id();
  std::vector<CollectiveId> answers = w.said<CollectiveId>();
  BOOST_TEST_REQUIRE(answers.size() == 3u);
  for (const CollectiveId& answer : answers) BOOST_TEST(answer.first == 2);
}

// The members that the id is for may be others by then.
BOOST_AUTO_TEST_CASE(NobodyGetsAnIdWhileAWorkerIsStartedElsewhere) {
  World w({"a", "a"});
  w.say(0);
  w.say(1);
  w.answers();
  w.hear({Role::node, 1, 1}, Down{w.worker(1), "killed"});
  w.say(0, "key");
  BOOST_TEST(w.answers() == "");
}

BOOST_AUTO_TEST_CASE(WhoeverHasJoinedIsAnswered) {
  World w({"a", "a"});
  w.say(0);
  w.joined(1);
  BOOST_TEST(w.answers() == "1:[0 1] joined");
}

BOOST_AUTO_TEST_CASE(WhoeverHasNotJoinedInTimeEndsTheRunAndIsNamed) {
  World w({"a", "a"});
  w.make_id();  // and it waits
  w.pass(44);
  BOOST_TEST_REQUIRE(!w.all.finished.has_value());
  w.pass(2);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(w.all.finished->failure.find("worker 1 on node 1 (second) has not joined the devices of the same host "
                                          "within 45 s") == 0u,
             w.all.finished->failure);
}

BOOST_AUTO_TEST_CASE(SoDoesWhoeverHasNotEvenSpoken) {
  World w({"a", "a"});
  w.say(1);
  w.pass(46);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(w.all.finished->failure.find("worker 0 on node 0 (first) has not joined") == 0u,
             w.all.finished->failure);
}

BOOST_AUTO_TEST_CASE(WhenAllWaitAndNoneJoinsAllAreNamed) {
  World w({"a", "a"});
  w.make_id();
  w.say(1, "key");
  w.pass(46);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(
      w.all.finished->failure.find("worker 0 on node 0 (first), worker 1 on node 1 (second) have not joined") == 0u,
      w.all.finished->failure);
}

BOOST_AUTO_TEST_CASE(WhenAllHaveJoinedTimeMayPass) {
  World w({"a", "a"});
  w.make_id();
  for (const WorkerId member : {0u, 1u}) w.joined(member);
  w.pass(100);
  BOOST_TEST(!w.all.finished.has_value());
}

// Worker 1 is being started again.
BOOST_AUTO_TEST_CASE(NobodyIsLateWhileANewGenerationIsOnItsWay) {
  World w({"a", "a"});
  w.make_id();
  w.joined(0);
  w.hear({Role::node, 1, 1}, Down{w.worker(1), "killed"});
  w.pass(100);
  BOOST_TEST(!w.all.finished.has_value());
}

BOOST_AUTO_TEST_CASE(DevicesOfTwoKindsOnOneHostEndTheRunAndAreNamed) {
  World w({"a", "a"});
  w.say(0, "", "cpu");
  w.say(1);
  BOOST_TEST_REQUIRE(w.all.finished.has_value());
  BOOST_TEST(w.all.finished->failure.find("worker 1 computes on cuda, worker 0 of the same host on cpu") == 0u,
             w.all.finished->failure);
}

BOOST_AUTO_TEST_CASE(ANewGenerationIsANewGroup) {
  World w({"a", "a"});
  w.make_id();
  w.answers();
  w.hear({Role::node, 1, 1}, Down{w.worker(1), "killed"});
  w.start_actors();
  w.join();
  w.say(0);
  BOOST_TEST(w.answers() == "");
  w.say(1);
  BOOST_TEST(w.answers() == "0:[0 1]");
}

BOOST_AUTO_TEST_SUITE_END()
