#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include <troupe/kernels/base/parse.h>
#include <troupe/ps/metrics/http_page.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(http_page)

namespace {

struct Lab {
  explicit Lab(const std::string& listen = "127.0.0.1:0") {
    auto opened =
        HttpPage::open({listen, "/metrics", "text/plain; version=0.0.4"}, [this]() -> std::optional<std::string> {
          ++asked;
          return answers ? std::optional<std::string>("step 7\n") : std::nullopt;
        });
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    page = std::move(*opened);
  }

  /// What it says to these bytes, until it closes.
  std::string say(const std::string& bytes, bool more_to_come = false) const {
    const FileDescriptor connection(::socket(AF_INET, SOCK_STREAM, 0));
    const std::string& address = page->address();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(*number_from<uint16_t>(address.substr(address.rfind(':') + 1)));
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    BOOST_REQUIRE(::connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    ::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (!more_to_come) ::shutdown(connection.get(), SHUT_WR);
    std::string said;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(connection.get(), buffer, sizeof buffer, 0)) > 0;)
      said.append(buffer, static_cast<size_t>(n));
    return said;
  }

  std::atomic<int> asked{0};
  std::atomic<bool> answers{true};
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
  BOOST_TEST(lab.say(std::string(8192, 'x')).starts_with("HTTP/1.1 400 "));
  BOOST_TEST(lab.asked == 0);
}

BOOST_AUTO_TEST_CASE(WhoeverSaysNothingMoreIsLetGoAndTheNextIsServed) {
  const Lab lab;
  BOOST_TEST(lab.say("GET /met", true).starts_with("HTTP/1.1 400 "));
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

BOOST_AUTO_TEST_CASE(WhereThereIsNoAnswerNowThatIsSaid) {
  Lab lab;
  lab.answers = false;
  BOOST_TEST(lab.say("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
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
  BOOST_TEST(open("127.0.0.1:none").starts_with("cannot listen on 127.0.0.1:none: "));
}

BOOST_AUTO_TEST_CASE(LoopbackIsKnownByItsAddress) {
  for (const char* here : {"127.0.0.1:9464", "127.9.9.9:1", "[::1]:0", "localhost:80"})
    BOOST_TEST(is_loopback(here), here);
  for (const char* open : {"0.0.0.0:9464", "[::]:1", "10.0.0.7:80", "host:80", "127.example:80", ":80", ""})
    BOOST_TEST(!is_loopback(open), open);
}

BOOST_AUTO_TEST_SUITE_END()
