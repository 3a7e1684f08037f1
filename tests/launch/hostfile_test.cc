#include <boost/test/unit_test.hpp>

#include <tools/launch/hostfile.h>

using namespace troupe;
using namespace troupe::launch;

BOOST_AUTO_TEST_SUITE(hostfile)

namespace {

std::string refusal(std::string_view text) {
  const auto hosts = parse_hostfile(text, "h");
  return hosts ? "accepted" : hosts.error().message;
}

std::string list_refusal(std::string_view text) {
  const auto hosts = parse_host_list(text);
  return hosts ? "accepted" : hosts.error().message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryFormOfAHostIsRead) {
  const auto hosts = parse_hostfile(
      "# our machines\n\n  node1 slots=4  # rack 1\r\nada@node2:2222\tslots=2\nfd00::7\n[fd00::8]:22\n10.0.0.9", "h");
  BOOST_REQUIRE(hosts);
  BOOST_REQUIRE(hosts->size() == 5u);
  const auto is = [&](size_t i, const std::string& user, const std::string& name, int port, int slots) {
    const Host& h = (*hosts)[i];
    BOOST_TEST(h.user == user);
    BOOST_TEST(h.name == name);
    BOOST_TEST(h.port == port);
    BOOST_TEST(h.slots == slots);
  };
  is(0, "", "node1", 0, 4);
  is(1, "ada", "node2", 2222, 2);
  is(2, "", "fd00::7", 0, 1);
  is(3, "", "fd00::8", 22, 1);
  is(4, "", "10.0.0.9", 0, 1);
  BOOST_TEST((*hosts)[1].destination() == "ada@node2");
  BOOST_TEST((*hosts)[4].where == "h:7");
}

BOOST_AUTO_TEST_CASE(AHostMayComeOnlyOnce) {
  BOOST_TEST(refusal("a slots=1\n\nA slots=2\n") ==
             "h:3: A is there already (h:1): name a host once, with all its slots");
  BOOST_TEST(list_refusal("a:1,b,u@a") == "-H: a is there already (-H): name a host once, with all its slots");
}

BOOST_AUTO_TEST_CASE(ABadCountIsNamedWithItsLine) {
  for (const char* count : {"0", "-1", "65537", "2.5", "x", "", "+1", "99999999999999999999"})
    BOOST_TEST(refusal(std::string("a\nb slots=") + count) ==
               std::string("h:2: slots=") + count + ": must be from 1 to 65536");
  BOOST_TEST(list_refusal("a:0") == "-H: a:0: the number of slots must be from 1 to 65536");
}

BOOST_AUTO_TEST_CASE(AllSlotsTogetherAreBounded) {
  BOOST_TEST(refusal("a slots=65536\nb slots=1") == "h:2: with this host there are 65537 slots, more than 65536");
}

BOOST_AUTO_TEST_CASE(NoHostsIsAnError) {
  for (const char* text : {"", "\n\n", "# only words\n"})
    BOOST_TEST(refusal(text) == "h: names no host; a line is HOST slots=N");
}

BOOST_AUTO_TEST_CASE(WhatIsNoHostsNameIsRefused) {
  for (const char* name :
       {"-oProxyCommand=x", "a/b", "a;b", "@a", "a@", "u$@a", "[::1", "[]", "[a]", "a:b:c!", "$(id)"})
    BOOST_TEST(refusal(name).starts_with("h:1: "), name << " gave " << refusal(name));
  BOOST_TEST(list_refusal("a,,b").starts_with("-H: "));
  BOOST_TEST(list_refusal("").starts_with("-H: "));
}

BOOST_AUTO_TEST_CASE(APortIsANumberOfOne) {
  for (const char* port : {"0", "65536", "", "x"})
    BOOST_TEST(refusal(std::string("a:") + port).ends_with("the port must be from 1 to 65535"));
}

BOOST_AUTO_TEST_CASE(WhatElseStandsInALineIsRefused) {
  BOOST_TEST(refusal("a slot=4") == "h:1: slot=4: expected HOST slots=N, and nothing behind it");
  BOOST_TEST(refusal("a slots=4 slots=4") == "h:1: slots=4: expected HOST slots=N, and nothing behind it");
}

BOOST_AUTO_TEST_CASE(TheShortFormTakesSlotsUsersAndBrackets) {
  const auto hosts = parse_host_list("a:2, ada@b ,[fd00::7]:4");
  BOOST_REQUIRE(hosts);
  BOOST_REQUIRE(hosts->size() == 3u);
  BOOST_TEST((*hosts)[0].slots == 2);
  BOOST_TEST((*hosts)[1].user == "ada");
  BOOST_TEST((*hosts)[2].name == "fd00::7");
  BOOST_TEST((*hosts)[2].slots == 4);
}

BOOST_AUTO_TEST_CASE(AFileThatIsNotThereIsNamed) {
  BOOST_TEST(read_hostfile("/nowhere/h").error().message == "--hosts /nowhere/h: cannot be read");
  BOOST_TEST(!read_hostfile("/"));
}

BOOST_AUTO_TEST_SUITE_END()
