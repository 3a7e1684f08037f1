#include <boost/test/unit_test.hpp>

#include <map>
#include <set>
#include <sstream>

#include <troupe/ps/metrics/run_status.h>

using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(run_status)

namespace {

RunStatus busy() {
  RunStatus s;
  s.phase = "running";
  s.generation = 1'000'002;
  s.step = 40;
  s.total_steps = 100;
  s.samples = 640;
  s.worker_restarts = 2;
  s.coordinator_restarts = 1;
  s.coordinator.refused = {{"unknown key", 3}, {"garbage", 1}};
  s.nodes = {{0, "host \"a\":7", "ready", 120, 5, 2048, 1, {"worker 0"}}, {1, "b:8", "gone", 9000, 0, 0, 0, {}}};
  s.workers = {{0, 0, 41, 0, 1, 0.0125, 0.001}, {1, -1, 38, 3, 2, 0.2, 0}};
  s.servers = {{0, 0, -1}};
  s.lost = {{0, "fc1", 0, 16, 30, 39, 4, 9}};
  return s;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(ThePersonSeesWhoIsSlowWhatWaitsAndWhoWasRefused) {
  const std::string text = status_text(status_json(busy())).value();
  BOOST_TEST(holds(text, "running, step 40 of 100, epoch 0, generation 1000002, 2 worker and 0 server restarts, "
                         "0 checkpoints, 1 coordinator restarts\n"), text);
  BOOST_TEST(holds(text, "refused by the coordinator (see the log): 1 garbage, 3 unknown key\n"), text);
  BOOST_TEST(holds(text, "5 (2.0 kB)"), text);
  BOOST_TEST(holds(text, "12.5 ms"), text);
  BOOST_TEST(holds(text, "200.0 ms"), text);
  BOOST_TEST(holds(text, "lost: layer fc1 [0, 16) of server 0"), text);
}

BOOST_AUTO_TEST_CASE(WhatDidNotHappenIsNotSaid) {
  const std::string text = status_text(status_json(RunStatus{})).value();
  for (const char* part : {"refused by", "dropped", "failed", "skipped", "coordinator restarts", "lost:", "waits for"})
    BOOST_TEST(!holds(text, part), text);
}

BOOST_AUTO_TEST_CASE(SomethingElseIsNoStatus) {
  for (const char* other : {"{}", "nonsense", "{\"nodes\": 3}", "[]"})
    for (const auto& text : {status_text(other), status_prometheus(other)}) {
      BOOST_TEST_REQUIRE(!text.has_value());
      BOOST_TEST(holds(text.error().message, "the answer is no status of a run: "));
    }
}

BOOST_AUTO_TEST_CASE(ForPrometheusEachMetricIsOneGroupWithItsTypeAndEndsItsLine) {
  const std::string text = status_prometheus(status_json(busy())).value();
  BOOST_REQUIRE(!text.empty());
  BOOST_TEST(text.back() == '\n');
  std::map<std::string, std::string> types;
  std::set<std::string> samples;
  std::istringstream lines(text);
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, kind, name, type;
    words >> first >> kind;
    if (first == "#") {
      words >> name >> type;
      if (kind == "TYPE") BOOST_TEST(types.emplace(name, type).second, name << " twice");
      current = name;
      continue;
    }
    BOOST_TEST(line.substr(0, line.find_first_of("{ ")) == current, line);
    BOOST_TEST(samples.insert(line.substr(0, line.rfind(' '))).second, line << " twice");
  }
  for (const auto& [name, type] : types) BOOST_TEST((type == "counter") == name.ends_with("_total"), name);
  BOOST_TEST(types.size() >= 20u);
}

BOOST_AUTO_TEST_CASE(ForPrometheusTheNumbersAreThoseOfTheStatus) {
  const std::string text = status_prometheus(status_json(busy())).value();
  for (const char* line :
       {"troupe_phase{phase=\"running\"} 1", "troupe_step 40.0", "troupe_restarts_total{role=\"coordinator\"} 1",
        "troupe_refused_total{node=\"coordinator\",reason=\"unknown key\"} 3",
        "troupe_node_up{node=\"0\",process=\"host \\\"a\\\":7\"} 1",
        "troupe_worker_compute_seconds{worker=\"1\"} 0.2", "troupe_worker_steps_behind{worker=\"1\"} 3",
        "troupe_queued_bytes{node=\"0\"} 2048", "troupe_slot_placed{role=\"worker\",index=\"1\"} 0",
        "troupe_server_replicated{server=\"0\"} 0", "troupe_lost_updates_total 9"})
    BOOST_TEST(holds(text, line), line << " is not in\n" << text);
}

BOOST_AUTO_TEST_CASE(ForPrometheusNodesThatAreGoneAreNot) {
  RunStatus s = busy();
  s.nodes[0].state = "preparing";
  const std::string text = status_prometheus(status_json(s)).value();
  BOOST_TEST(holds(text, "troupe_node_up{node=\"0\",process=\"host \\\"a\\\":7\"} 0"), text);
  BOOST_TEST(!holds(text, "node=\"1\""), text);
}

BOOST_AUTO_TEST_SUITE_END()
