#include <algorithm>
#include <boost/test/unit_test.hpp>

#include <tools/launch/launch_plan.h>
#include <tools/launch/route.h>

using namespace troupe;
using namespace troupe::launch;

BOOST_AUTO_TEST_SUITE(launch_plan)

namespace {

const std::vector<int> kCores = {0, 1, 2};

LaunchRequest request() {
  LaunchRequest request;
  request.troupe = "/opt/troupe";
  request.train = {"a b.toml", "--set", "train.epochs=1"};
  request.announce_file = "/tmp/x/announce";
  request.remote_troupe = "/opt/there/troupe";
  request.ssh.connect_timeout = Moment{7000};
  request.ssh.folder = "/data";
  return request;
}

Place place(int rank, int size, const std::string& rendezvous) {
  return {.rank = rank, .size = size, .rendezvous = rendezvous};
}

}  // namespace

BOOST_AUTO_TEST_CASE(ProcessesOfThisMachineMeetOnItsLoopback) {
  BOOST_TEST(dry_run(plan_here(request(), 2, kCores)) ==
             "/opt/troupe train 'a b.toml' --set 'train.epochs=1' --nodes 2 --listen 127.0.0.1:0 "
             "--announce /tmp/x/announce --death-fd 3\n"
             "/opt/troupe node --join ADDRESS --place 0 --death-fd 3\n"
             "/opt/troupe node --join ADDRESS --place 1 --death-fd 3\n");
}

namespace {

/// What each process keeps to; "" where it keeps to none.
std::vector<std::string> cores_of(const LaunchPlan& plan) {
  std::vector<std::string> cores;
  for (const NodePlan& node : plan.nodes) {
    const auto words = plan.node(node, "a:1").argv;
    const auto option = std::ranges::find(words, "--core");
    cores.push_back(option == words.end() ? "" : *std::next(option));
  }
  return cores;
}

}  // namespace

BOOST_AUTO_TEST_CASE(MoreProcessesThanCoresKeepToOneEachInTurns) {
  const std::vector<std::string> expected = {"3", "5", "3", "5"};
  BOOST_TEST(cores_of(plan_here(request(), 4, {3, 5})) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(AsManyProcessesAsCoresKeepToOneEach) {
  const std::vector<std::string> expected = {"3", "5"};
  BOOST_TEST(cores_of(plan_here(request(), 2, {3, 5})) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(FewerProcessesThanCoresRunWhereTheyLike) {
  const std::vector<std::string> expected = {"", ""};
  BOOST_TEST(cores_of(plan_here(request(), 2, {3, 5, 7})) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(NodesAreToldWhatTheyMustKnowOfTheConfigBeforeTheyJoin) {
  LaunchRequest r = request();
  r.node_settings = {"network.shared_memory=false", "network.queue_bytes=1048576"};
  const auto told = [](const LaunchPlan& plan) {
    size_t count = 0;
    for (const NodePlan& node : plan.nodes) {
      std::string words;
      for (const std::string& word : plan.node(node, "a:1").argv) words += word + " ";
      count += words.find("network.shared_memory=false") < words.find("network.queue_bytes=1048576") &&
               words.find("network.queue_bytes=1048576") != std::string::npos;
    }
    return count;
  };
  BOOST_TEST(told(plan_here(r, 2, kCores)) == 2u);
  BOOST_TEST(told(plan_hosts(r, *parse_hostfile("a slots=2\nb", "h"))) == 3u);
  BOOST_TEST(told(plan_place(r, place(1, 2, "a:1"), "")) == 1u);
}

BOOST_AUTO_TEST_CASE(ARecoveredCoordinatorListensAtTheSameAddress) {
  const Command command = plan_here(request(), 2, kCores).recover({"127.0.0.1:4711", "runs/r"});
  const std::vector<std::string> expected = {"/opt/troupe", "train",           "--recover",  "runs/r",
                                             "--listen",    "127.0.0.1:4711",
                                             "--announce",  "/tmp/x/announce", "--death-fd", "3"};
  BOOST_TEST(command.argv == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(EverySlotOfAHostIsANode) {
  LaunchRequest r = request();
  r.listen = "10.0.0.1:0";
  r.keys = "/k";
  const std::string ssh =
      "ssh -o 'BatchMode=yes' -o 'ConnectTimeout=7' -o 'ServerAliveInterval=2' "
      "-o 'ServerAliveCountMax=3' -o 'ControlPath=none' -T ";
  const auto node = [](const std::string& place) {
    return "'exec 3>&2 2>/dev/null; sh -c '\\''cd /data || exit 2; echo troupe-process $$; exec /opt/there/troupe node "
           "--join ADDRESS --place " +
           place + " --listen '\\''\\'\\'''\\''*:0'\\''\\'\\'''\\'' --keys /k --death-fd 0'\\'' 2>&3 3>&-; exit $?'\n";
  };
  BOOST_TEST(dry_run(plan_hosts(r, *parse_hostfile("a slots=2\nada@[fd00::7]:2222", "h"))) ==
             "/opt/troupe train 'a b.toml' --set 'train.epochs=1' --nodes 3 --listen 10.0.0.1:0 "
             "--announce /tmp/x/announce --keys /k --death-fd 3\n" +
                 ssh + "-- a " + node("0") + ssh + "-- a " + node("1") + ssh + "-p 2222 -- ada@fd00::7 " + node("2"));
}

BOOST_AUTO_TEST_CASE(RankZeroHasTheCoordinatorAndTheOthersJoinIt) {
  LaunchRequest r = request();
  r.listen = "*:9000";
  r.insecure_network = true;
  BOOST_TEST(dry_run(plan_place(r, place(0, 3, "n1:9000"), "")) ==
             "/opt/troupe train 'a b.toml' --set 'train.epochs=1' --nodes 3 --listen '*:9000' "
             "--announce /tmp/x/announce --insecure-network --death-fd 3\n"
             "/opt/troupe node --join ADDRESS --place 0 --listen '*:0' --insecure-network --death-fd 3\n");
  BOOST_TEST(dry_run(plan_place(r, place(2, 3, "n1:9000"), "")) ==
             "/opt/troupe node --join n1:9000 --place 2 --listen '*:0' --insecure-network --death-fd 3\n");
}

BOOST_AUTO_TEST_CASE(RankZeroListensWhereTheOthersLook) {
  BOOST_TEST(*listen_for(place(0, 2, "n1:9000")) == "*:9000");
  BOOST_TEST(*listen_for(place(0, 2, "127.0.0.1:9000")) == "127.0.0.1:9000");
  BOOST_TEST(*listen_for(place(0, 2, "[::1]:9000")) == "[::1]:9000");
  BOOST_TEST(*listen_for(place(0, 1, "")) == "127.0.0.1:0");
  BOOST_TEST(!listen_for(place(0, 2, "n1")));
}

BOOST_AUTO_TEST_CASE(TheWayToTheLoopbackBeginsThere) {
  BOOST_TEST(*own_address_towards("127.0.0.5") == "127.0.0.1");
  BOOST_TEST(is_loopback(*own_address_towards("localhost")));
  BOOST_TEST(own_address_towards("nowhere.invalid").error().message.starts_with("nowhere.invalid: "));
  BOOST_TEST(with_port("fd00::1", 7) == "[fd00::1]:7");
}

BOOST_AUTO_TEST_SUITE_END()
