#include <boost/test/unit_test.hpp>

#include <tools/launch/launch_plan.h>
#include <tools/launch/shell_quote.h>

#include "sshd.h"

using namespace troupe;
using namespace troupe::launch;
using namespace troupe::launch::test;

BOOST_AUTO_TEST_SUITE(ssh)

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A launch over a real sshd of a program that does what its words say: `troupe` is a script.
struct Remote {
  Remote() : sshd(lab.folder) {
    request.troupe = request.remote_troupe = lab.folder / "troupe it's";  // a name that needs quotes
    request.train = {"tiny.toml"};
    request.announce_file = lab.folder / "announce";
    request.ssh = {.program = sshd.ssh(), .connect_timeout = Moment{10000}, .folder = lab.folder.path()};
  }

  void program(const std::string& coordinator, const std::string& node) {
    const std::string fake = shell_quoted(TROUPE_FAKE_PROCESS), at = lab.folder.path() + '/';
    lab.folder.write("troupe it's", "#!/bin/sh\ncd " + at + "\nplace=$5\ncase $1 in\ntrain) exec " + fake +
                                        " death:3 announce:announce " + coordinator + ";;\nnode) exec " + fake +
                                        " death:0 " + node + ";;\nesac\n");
    ::chmod((lab.folder / "troupe it's").c_str(), 0755);
  }

  int run(const std::string& hosts) { return lab.wait(start(hosts)); }
  pid_t start(const std::string& hosts) {
    lab.plan_edit = [this, hosts](LaunchPlan& plan) { plan = plan_hosts(request, *parse_host_list(hosts)); };
    return lab.start();
  }

  Lab lab;
  Sshd sshd;
  LaunchRequest request;
};

struct NeedsSshd {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(Sshd::available());
    result.message() << "openssh-server is not installed (tools/install --test)";
    return result;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(NodesOfTwoHostsRunWhereTheyShould, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  BOOST_REQUIRE(remote.sshd.runs());
  remote.program("until:up.0 until:up.1 until:up.2", "out:place-$place touch:up.$place");
  BOOST_TEST(remote.run("alpha:2,beta:1") == 0);
  auto lines = lines_of(remote.lab.out());
  std::sort(lines.begin(), lines.end());
  BOOST_TEST(lines == (Words{"[node 0] place-0", "[node 1] place-1", "[node 2] place-2"}),
             boost::test_tools::per_element());
  BOOST_TEST(remote.lab.err() == "");
  BOOST_TEST(remote.lab.log("node-2") == "place-2\n");
}

BOOST_AUTO_TEST_CASE(ARemoteNodeThatIsKilledIsInTheTableAndStartedAgain, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  remote.program("until:again", "once:first signal:9 touch:again");
  BOOST_TEST(remote.run("alpha") == 0);
  BOOST_TEST(contains(remote.lab.err(), "signal 9 (Killed)  started again"), remote.lab.err());
  BOOST_TEST(contains(remote.lab.err(), "alpha"));
}

BOOST_AUTO_TEST_CASE(AHostThatRefusesTheConnectionIsNamed, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  remote.program("on-term:130 forever", "forever");
  BOOST_TEST(remote.run("alpha,closed") == 255);
  BOOST_TEST(contains(remote.lab.err(), "node 1 on closed"));
  BOOST_TEST(contains(remote.lab.err(), "Connection refused"));
}

BOOST_AUTO_TEST_CASE(AHostThatDoesNotAnswerIsNamedWithinTheStartTimeout, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  remote.lab.options.keeper.start_timeout = Moment{1000};
  remote.program("on-term:130 forever", "on-term:0 forever");
  BOOST_TEST(remote.run("alpha,silent") == 1);
  BOOST_TEST(contains(remote.lab.err(), "node 1 on silent"));
  BOOST_TEST(contains(remote.lab.err(), "did not answer within 1 s"));
}

BOOST_AUTO_TEST_CASE(AProgramThatIsNotOnTheHostIsNamed, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  remote.program("on-term:130 forever", "forever");
  remote.request.remote_troupe = "/nowhere/troupe";
  BOOST_TEST(remote.run("alpha") == 127);
  BOOST_TEST(contains(remote.lab.err(), "/nowhere/troupe: not found"));
}

BOOST_AUTO_TEST_CASE(AKilledLauncherLeavesNobodyOnTheHosts, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  remote.program("pid:up forever", "on-term:ignore pid:node.$place forever");
  const pid_t launcher = remote.start("alpha:2");
  for (const char* name : {"up", "node.0", "node.1"}) BOOST_REQUIRE(remote.lab.pid_in(name) > 0);
  ::kill(launcher, SIGKILL);
  remote.lab.wait(launcher);
  for (const char* name : {"up", "node.0", "node.1"}) BOOST_TEST(remote.lab.eventually_gone(name), name);
}

BOOST_AUTO_TEST_CASE(TheAliasOfAConfigLeadsToItsAddress, *boost::unit_test::precondition(NeedsSshd())) {
  Remote remote;
  BOOST_TEST(*address_behind(remote.request.ssh, {.name = "alpha"}) == "127.0.0.1");
  BOOST_TEST(*listen_for(remote.request.ssh, *parse_host_list("alpha,beta")) == "127.0.0.1:0");
}

BOOST_AUTO_TEST_CASE(AHostNameIsNeverAnOption) {
  const Command command = over_ssh({.folder = "."}, {.user = "ada", .name = "h", .port = 22}, {"t"});
  const auto& argv = command.argv;
  const auto dashes = std::find(argv.begin(), argv.end(), "--");
  BOOST_REQUIRE(dashes + 2 < argv.end());
  BOOST_TEST(*(dashes + 1) == "ada@h");
  BOOST_TEST(*(dashes - 1) == "22");
}

BOOST_AUTO_TEST_CASE(WordsSurviveAShell) {
  for (const char* word :
       {"", "a", "a b", "it's", "$HOME", "a\nb", "*", "\\", "\"", "!x", "-n", "~", "a=b", "\xc3\xa9"}) {
    auto child = Child::start({.argv = {"sh", "-c", "printf %s " + shell_quoted(word)}});
    BOOST_REQUIRE(child);
    BOOST_TEST(ending_of(*child).ok());
    char text[64];
    const ssize_t n = ::read(child->stdout_fd(), text, sizeof text);
    BOOST_TEST(std::string(text, static_cast<size_t>(std::max<ssize_t>(0, n))) == word);
  }
}

BOOST_AUTO_TEST_SUITE_END()
