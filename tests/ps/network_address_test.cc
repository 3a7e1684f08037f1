#include <arpa/inet.h>
#include <sys/socket.h>
#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/ps/transport/internal/address.h>
#include <troupe/ps/transport/network_transport.h>

#include <tests/support/inbox.h>
#include <tests/support/network.h>
#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(network_address)

namespace {

const Endpoint kServer{Role::server, 0, 1};
const Endpoint kWorker{Role::worker, 0, 1};

std::string error_of(NetworkOptions options) {
  const auto opened = NetworkTransport::open(std::move(options));
  return opened ? "" : opened.error().message;
}

bool has_ipv6() {
  const FileDescriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  return probe.get() >= 0 && ::bind(probe.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
}

/// Whether a message gets from a new transport to one that listens on `listen`, at `address` where given.
bool reaches(const std::string& listen, const std::string& address = "") {
  Inbox inbox;
  auto server = open({.listen = listen, .insecure_network = true});
  server->attach(kServer, inbox.sink());
  NodeAddress there = server->address();
  if (!address.empty()) there.address = address + there.address.substr(there.address.rfind(':'));
  auto worker = open({.listen = ""});
  worker->set_self(0);
  worker->set_routes(routes_of({{worker->address(), {kWorker}}, {there, {kServer}}}));
  worker->send({kWorker, kServer, 1, Pull{}});
  return inbox.wait(1).size() == 1;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AFreePortIsChosenAndTold) {
  auto one = open(), two = open();
  BOOST_TEST(one->address().address.starts_with("tcp://127.0.0.1:"));
  BOOST_TEST(one->address().address != "tcp://127.0.0.1:0");
  BOOST_TEST(one->address().address != two->address().address);
}

BOOST_AUTO_TEST_CASE(ProcessesOfOneHostAreTold) {
  auto one = open(), two = open();
  BOOST_TEST(one->address().host.size() == 32u);
  BOOST_TEST(one->address().host == two->address().host);
}

BOOST_AUTO_TEST_CASE(APortInUseIsAClearError) {
  auto first = open();
  const std::string address = first->address().address;
  BOOST_TEST(error_of({.listen = address}) ==
             "cannot listen on " + address +
                 ": Address already in use: another program listens there; choose another "
                 "port, or port 0 for a free one");
}

BOOST_AUTO_TEST_CASE(AnAddressThatIsNoneIsAClearError) {
  const std::string advice = "; write tcp://HOST:PORT, tcp://[IPv6]:PORT or ipc:///PATH";
  BOOST_TEST(error_of({.listen = "127.0.0.1:80"}) == "address \"127.0.0.1:80\": neither tcp:// nor ipc://" + advice);
  BOOST_TEST(error_of({.listen = "tcp://127.0.0.1"}) == "address \"tcp://127.0.0.1\": has no port" + advice);
  BOOST_TEST(error_of({.listen = "tcp://::1:80"}) ==
             "address \"tcp://::1:80\": an IPv6 address needs brackets" + advice);
  BOOST_TEST(error_of({.listen = "tcp://127.0.0.1:70000"}) ==
             "address \"tcp://127.0.0.1:70000\": the port is not a number from 0 to 65535" + advice);
  BOOST_TEST(error_of({.home = "nowhere"}) == "address \"tcp://nowhere\": has no port" + advice);
}

BOOST_AUTO_TEST_CASE(AFolderThatIsNotThereIsAClearError) {
  BOOST_TEST(error_of({.listen = "ipc:///no/such/folder/x"}) ==
             "cannot listen on ipc:///no/such/folder/x: No such file or directory: the folder does not exist; make it "
             "first");
}

BOOST_AUTO_TEST_CASE(OnlyLoopbackAndIpcNeedNoKeys) {
  for (const char* address : {"tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:0", "tcp://192.0.2.1:0", "tcp://eth0:0"})
    BOOST_TEST(error_of({.listen = address}).starts_with(std::string("will not listen on ") + address + ": "));
}

BOOST_AUTO_TEST_CASE(AllInterfacesAreToldAsAnAddressThatPeersCanReach) {
  auto transport = open({.listen = "tcp://*:0", .insecure_network = true});
  const auto tcp = parse_tcp(transport->address().address);
  BOOST_REQUIRE(tcp);
  in6_addr ignored;
  BOOST_TEST((::inet_pton(AF_INET, tcp->host.c_str(), &ignored) == 1 ||
              ::inet_pton(AF_INET6, tcp->host.c_str(), &ignored) == 1));
  BOOST_TEST(!is_wildcard(tcp->host));
  BOOST_TEST(tcp->port != "0");
}

BOOST_AUTO_TEST_CASE(TheAddressTowardsTheCoordinatorIsTheOneThatIsTold) {
  BOOST_TEST(reachable_ip("tcp://127.0.0.1:9") == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(WhatIsAdvertisedIsToldInstead) {
  const std::string port = [](const std::string& a) { return a.substr(a.rfind(':')); }(open()->address().address);
  BOOST_TEST(open({.advertise = "head.example:4000"})->address().address == "tcp://head.example:4000");
  auto transport = open({.advertise = "10.1.2.3"});
  BOOST_TEST(transport->address().address.starts_with("tcp://10.1.2.3:"));
  BOOST_TEST(!transport->address().address.ends_with(":0"));
}

BOOST_AUTO_TEST_CASE(MessagesReachALoopbackAddress) { BOOST_TEST(reaches("tcp://127.0.0.1:0")); }

BOOST_AUTO_TEST_CASE(MessagesReachANamedHost) { BOOST_TEST(reaches("tcp://127.0.0.1:0", "tcp://localhost")); }

BOOST_AUTO_TEST_CASE(MessagesReachAnIpv6Address) {
  if (has_ipv6())
    BOOST_TEST(reaches("tcp://[::1]:0"));
  else
    BOOST_TEST_MESSAGE("skipped: no IPv6 on this machine");
}

BOOST_AUTO_TEST_CASE(AllInterfacesMeansBothFamilies) {
  BOOST_TEST(reaches("tcp://*:0", "tcp://127.0.0.1"));
  if (has_ipv6()) BOOST_TEST(reaches("tcp://*:0", "tcp://[::1]"));
}

BOOST_AUTO_TEST_SUITE_END()
