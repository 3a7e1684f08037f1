// What people are told of an address at which nobody answers.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/ps/transport/reach.h>

#include <tests/support/network.h>
#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(reach)

namespace {

std::string trouble(const std::string& address) {
  const auto reached = try_to_reach(address, std::chrono::milliseconds(5000));
  return reached ? "" : reached.error().message;
}

/// A port that is taken, where nobody listens.
struct Deaf {
  Deaf() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    TROUPE_CHECK(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size) == 0, "no port");
    TROUPE_CHECK(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0, "no name");
    port = std::to_string(ntohs(at.sin_port));
  }
  FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string port;
};

}  // namespace

BOOST_AUTO_TEST_CASE(WhoeverTakesConnectionsIsReached) {
  TempFolder folder;
  BOOST_TEST(trouble(open()->address().address) == "");
  const auto by_file = open({.listen = "ipc://" + folder / "socket"});
  BOOST_TEST(trouble(by_file->address().address) == "");
}

BOOST_AUTO_TEST_CASE(APortWhereNobodyListensIsSaid) {
  const Deaf deaf;
  BOOST_TEST(trouble("tcp://127.0.0.1:" + deaf.port) ==
             "no connection to 127.0.0.1 port " + deaf.port +
                 ": Connection refused: nothing listens there; is this its address, and does it run?");
}

BOOST_AUTO_TEST_CASE(ASocketThatIsNotThereIsSaid) {
  TempFolder folder;
  BOOST_TEST(trouble("ipc://" + folder / "none") ==
             "no connection to " + folder / "none" +
                 ": No such file or directory: nothing listens there; is this its address, and does it run?");
}

BOOST_AUTO_TEST_CASE(ANameThatLeadsNowhereIsSaid) {
  const std::string said = trouble("tcp://no..name:7000");
  BOOST_TEST(said.starts_with("the name no..name leads nowhere: "), said);
}

BOOST_AUTO_TEST_CASE(WhatIsNoAddressIsSaid) {
  BOOST_TEST(trouble("tcp://:7000").starts_with("address \"tcp://:7000\": has no host"), trouble("tcp://:7000"));
}

BOOST_AUTO_TEST_SUITE_END()
