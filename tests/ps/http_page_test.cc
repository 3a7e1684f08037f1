#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <troupe/kernels/base/parse.h>
#include <troupe/ps/metrics/http_page.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(http_page)

namespace {

struct Lab {
  explicit Lab(std::chrono::milliseconds patience = std::chrono::seconds(2)) {
    auto opened = HttpPage::open(
        {"127.0.0.1:0", "/metrics", "text/plain; version=0.0.4", patience}, [this]() -> std::optional<std::string> {
          ++asked;
          if (throws) throw std::runtime_error("the run is odd");
          return answers ? std::optional<std::string>("step 7\n") : std::nullopt;
        });
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    page = std::move(*opened);
  }

  FileDescriptor connect() const {
    FileDescriptor connection(::socket(AF_INET, SOCK_STREAM, 0));
    const std::string& address = page->address();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(*number_from<uint16_t>(address.substr(address.rfind(':') + 1)));
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    BOOST_REQUIRE(::connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    return connection;
  }

  /// What it says to these bytes, until it closes.
  std::string say(const std::string& bytes, bool more_to_come = false) const {
    const FileDescriptor connection = connect();
    const timeval longest{30, 0};
    ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    ::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (!more_to_come) ::shutdown(connection.get(), SHUT_WR);
    std::string said;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = ::recv(connection.get(), buffer, sizeof buffer, 0)) > 0) said.append(buffer, static_cast<size_t>(n));
    BOOST_TEST(n == 0, "not closed, but broken off");
    return said;
  }

  std::atomic<int> asked{0};
  std::atomic<bool> answers{true}, throws{false};
  std::unique_ptr<HttpPage> page;  // goes first
};

}  // namespace

BOOST_AUTO_TEST_CASE(AGetOfThePathGivesThePage) {
  const Lab lab;
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n", true) ==
             "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: 7\r\n"
             "Connection: close\r\n\r\nstep 7\n");
  BOOST_TEST(lab.say("GET /metrics?a=b HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  BOOST_TEST(lab.asked == 2);
}

BOOST_AUTO_TEST_CASE(AnythingElseIsRefusedUnasked) {
  const Lab lab;
  BOOST_TEST(lab.say("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  BOOST_TEST(lab.say("GET /metricsandmore HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  BOOST_TEST(lab.say("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  BOOST_TEST(lab.say("GET").starts_with("HTTP/1.1 400 "));
  BOOST_TEST(lab.say("\r\n\r\n").starts_with("HTTP/1.1 405 "));
  BOOST_TEST(lab.say(std::string(8192, 'x')).starts_with("HTTP/1.1 431 "));
  BOOST_TEST(lab.asked == 0);
}

BOOST_AUTO_TEST_CASE(WhoeverSaysNothingMoreIsLetGoAndTheNextIsServed) {
  const Lab lab;
  BOOST_TEST(lab.say("GET /met", true).starts_with("HTTP/1.1 400 "));
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

// More than what may be connected at once, each of which could keep quiet for an hour.
BOOST_AUTO_TEST_CASE(ManyWhoSayNothingShutNobodyOut) {
  const Lab lab(std::chrono::hours(1));
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(lab.connect());
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\n\r\n", true).starts_with("HTTP/1.1 200 "));
}

BOOST_AUTO_TEST_CASE(ARequestThatTricklesInHasTheTimeOfAWholeOne) {
  const Lab lab(std::chrono::milliseconds(300));
  const FileDescriptor connection = lab.connect();
  std::string said;
  char buffer[4096];
  for (int i = 0; i < 3000 && said.empty(); ++i) {
    ::send(connection.get(), "x", 1, MSG_NOSIGNAL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const ssize_t n = ::recv(connection.get(), buffer, sizeof buffer, MSG_DONTWAIT); n > 0)
      said.append(buffer, static_cast<size_t>(n));
  }
  BOOST_TEST(said.starts_with("HTTP/1.1 400 "));
}

BOOST_AUTO_TEST_CASE(ARefusalArrivesThoughMoreOfTheRequestWasSaid) {
  const Lab lab;
  BOOST_TEST(lab.say(std::string(100'000, 'x')).starts_with("HTTP/1.1 431 "));
}

BOOST_AUTO_TEST_CASE(WhereThereIsNoAnswerNowThatIsSaid) {
  Lab lab;
  lab.answers = false;
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
  lab.throws = true;
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
}

// "localhost" is ::1 and 127.0.0.1 on most hosts.
BOOST_AUTO_TEST_CASE(WhereOneAddressOfANameIsTakenTheNextIsTried) {
  const auto first = HttpPage::open({"[::1]:0", "/metrics", ""}, [] { return std::nullopt; });
  if (!first) {
    BOOST_TEST_MESSAGE("skipped: " << first.error().message);
    return;
  }
  const std::string port = (*first)->address().substr((*first)->address().rfind(':'));
  const auto second = HttpPage::open({"localhost" + port, "/metrics", ""}, [] { return std::nullopt; });
  BOOST_TEST_REQUIRE(second.has_value());
  BOOST_TEST((*second)->address() == "127.0.0.1" + port);
}

BOOST_AUTO_TEST_CASE(AnAddressThatCannotBeHadIsNamed) {
  const Lab lab;
  const auto open = [](const std::string& listen) {
    const auto opened = HttpPage::open({listen, "/metrics", ""}, [] { return std::nullopt; });
    return opened ? "" : opened.error().message;
  };
  BOOST_TEST(
      open(lab.page->address()).starts_with("cannot listen on " + lab.page->address() + ": Address already in use"));
  BOOST_TEST(open("9464").starts_with("cannot listen on 9464: an address is HOST:PORT"));
  BOOST_TEST(open(":9464").starts_with("cannot listen on :9464: no host stands before the colon: 127.0.0.1:9464 is "));
  BOOST_TEST(open("127.0.0.1:none").starts_with("cannot listen on 127.0.0.1:none: "));
}

BOOST_AUTO_TEST_CASE(LoopbackIsKnownByItsAddress) {
  for (const char* here : {"127.0.0.1:9464", "127.9.9.9:1", "[::1]:0", "localhost:80"})
    BOOST_TEST(is_loopback(here), here);
  for (const char* open : {"0.0.0.0:9464", "[::]:1", "10.0.0.7:80", "host:80", "127.example:80", ":80", ""})
    BOOST_TEST(!is_loopback(open), open);
}

BOOST_AUTO_TEST_SUITE_END()
