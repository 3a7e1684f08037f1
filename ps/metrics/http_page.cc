#include <troupe/ps/metrics/http_page.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <list>
#include <vector>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRequestBytes = 8192, kMostConnections = 32;
constexpr int kBacklog = 128;
constexpr const char* kPlain = "text/plain; charset=utf-8";

/// "[::1]:9464" as host and port; empty ones where it is no address.
std::pair<std::string, std::string> split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

std::string name_of(int listener) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(listener, generic, &bytes) != 0 ||
      ::getnameinfo(generic, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return address.ss_family == AF_INET6 ? cat('[', host, "]:", port) : cat(host, ':', port);
}

/// A socket that listens at one of the addresses that a name stands for; the error of the system.
Result<FileDescriptor> listen_at(const addrinfo& address) {
  FileDescriptor listener(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (listener.get() >= 0 && ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      ::bind(listener.get(), address.ai_addr, address.ai_addrlen) == 0 && ::listen(listener.get(), kBacklog) == 0)
    return listener;
  const char* const taken = ": another program listens there; choose another port, or port 0 for a free one";
  return fail(ErrorKind::invalid, cat(std::strerror(errno), errno == EADDRINUSE ? taken : ""));
}

Result<FileDescriptor> listen_at(const std::string& where) {
  const auto [host, port] = split(where);
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorKind::invalid, cat("cannot listen on ", where, ": ", why));
  };
  if (host.empty() && !port.empty())
    return refuse(cat("no host stands before the colon: 127.0.0.1:", port, " is for programs of this host alone, "
                      "0.0.0.0:", port, " for all that reach it"));
  if (port.empty()) return refuse("an address is HOST:PORT, port 0 for a free one");
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return refuse(::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::string why;  // of the last, as localhost may be ::1 first where there is no IPv6
  for (const addrinfo* address = found; address; address = address->ai_next) {
    auto listener = listen_at(*address);
    if (listener) return listener;
    why = std::move(listener.error().message);
  }
  return refuse(why);
}

/// Whether the call may succeed later.
bool passes() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

std::string response(const char* status, const std::string& type, const std::string& body) {
  return cat("HTTP/1.1 ", status, "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(),
             "\r\nConnection: close\r\n\r\n", body);
}

}  // namespace

bool is_loopback(const std::string& listen) {
  const std::string host = split(listen).first;
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

Result<std::unique_ptr<HttpPage>> HttpPage::open(const Options& options,
                                                 std::function<std::optional<std::string>()> text) {
  auto listener = listen_at(options.listen);
  if (!listener) return tl::unexpected<Error>(listener.error());
  std::unique_ptr<HttpPage> page(new HttpPage);
  page->options_ = options;
  page->text_ = std::move(text);
  page->listener_ = std::move(*listener);
  page->ends_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  page->address_ = name_of(page->listener_.get());
  page->thread_ = std::thread([raw = page.get()] { raw->serve(); });
  return page;
}

HttpPage::~HttpPage() {
  if (!thread_.joinable()) return;
  ::eventfd_write(ends_.get(), 1);
  thread_.join();
}

/// reads the head --> writes the answer --> waits until the other has read it and closes: closed at once, what is
/// unread of a request would take the answer with it (RFC 9112, section 9.6). Each within its time.
struct HttpPage::Connection {
  Connection(FileDescriptor accepted, std::chrono::milliseconds time) : socket(std::move(accepted)), patience(time) {}

  FileDescriptor socket;
  std::chrono::milliseconds patience;
  enum class State : uint8_t { reads, writes, closes, over } state = State::reads;
  Clock::time_point until = Clock::now() + patience;
  std::string text;     ///< the head so far, or the answer
  size_t written = 0;   ///< of the answer

  bool ended = false;   ///< nothing more can be read

  bool whole() const { return text.find("\r\n\r\n") != std::string::npos; }
  /// Nothing more is to come, or nothing that counts.
  bool complete() const {
    return whole() || text.size() >= kMostRequestBytes || ended || until <= Clock::now();
  }
  void read();
  void answer(const std::string& answer);
  void write();
  void drain();
};

void HttpPage::Connection::read() {
  char buffer[1024];
  while (!whole() && text.size() < kMostRequestBytes) {
    const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && passes()) return;
    ended = n <= 0;
    if (ended) return;
    text.append(buffer, static_cast<size_t>(n));
  }
}

void HttpPage::Connection::answer(const std::string& answer) {
  state = State::writes;
  until = Clock::now() + patience;
  text = answer;
  write();
}

void HttpPage::Connection::write() {
  while (written < text.size()) {
    const ssize_t n = ::send(socket.get(), text.data() + written, text.size() - written, MSG_NOSIGNAL);
    if (n < 0 && passes()) return;
    if (n <= 0) {
      state = State::over;
      return;
    }
    written += static_cast<size_t>(n);
  }
  ::shutdown(socket.get(), SHUT_WR);
  state = State::closes;
  drain();
}

void HttpPage::Connection::drain() {
  char buffer[4096];
  for (int i = 0; i < 16; ++i) {  // the others' turn comes
    const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && passes()) return;
    if (n > 0) continue;
    state = State::over;
    return;
  }
}

void HttpPage::serve() {
  std::list<Connection> connections;  // the oldest first
  while (wait(connections)) {
    for (Connection& connection : connections) {
      if (connection.state == Connection::State::writes) connection.write();
      if (connection.state == Connection::State::closes) connection.drain();
    }
    answer(connections);
    const auto now = Clock::now();
    connections.remove_if(
        [&](const Connection& c) { return c.state == Connection::State::over || c.until <= now; });
    accept(connections);
  }
}

/// False: the page ends.
bool HttpPage::wait(const std::list<Connection>& connections) const {
  std::vector<pollfd> polls{{ends_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  auto until = Clock::time_point::max();
  for (const Connection& c : connections) {
    polls.push_back({c.socket.get(), static_cast<short>(c.state == Connection::State::writes ? POLLOUT : POLLIN), 0});
    until = std::min(until, c.until);
  }
  int timeout_ms = -1;
  if (!connections.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    timeout_ms = static_cast<int>(std::max<int64_t>(left, 0));
  }
  const int count = ::poll(polls.data(), polls.size(), timeout_ms);  // a signal: there is nothing to do then
  return count <= 0 || polls[0].revents == 0;
}

/// Whoever has said all that is to come. What is asked for in the same moment is made once.
void HttpPage::answer(std::list<Connection>& connections) const {
  std::optional<std::string> page;
  for (Connection& c : connections) {
    if (c.state != Connection::State::reads) continue;
    c.read();
    if (!c.complete()) continue;
    const std::string refusal = refuse(c);
    if (refusal.empty() && !page) page = make();
    c.answer(refusal.empty() ? *page : refusal);
  }
}

/// Empty: it asks for the page.
std::string HttpPage::refuse(const Connection& c) const {
  const std::string line = c.text.substr(0, c.text.find("\r\n"));
  if (!c.whole() && c.text.size() >= kMostRequestBytes)
    return response("431 Request Header Fields Too Large", kPlain, cat("at most ", kMostRequestBytes, " bytes\n"));
  if (!c.whole()) return response("400 Bad Request", kPlain, "no request came\n");
  if (!line.starts_with("GET ")) return response("405 Method Not Allowed", kPlain, "only GET\n");
  const std::string target = line.substr(4, line.find(' ', 4) - 4);
  if (target.substr(0, target.find('?')) == options_.path) return {};
  return response("404 Not Found", kPlain, "here is only " + options_.path + "\n");
}

std::string HttpPage::make() const {
  std::optional<std::string> text;
  try {
    text = text_();
  } catch (const std::exception&) {  // said as what it is: no answer
  }
  if (text) return response("200 OK", options_.content_type, *text);
  return response("503 Service Unavailable", kPlain, "no answer now\n");
}

/// Where there are too many, the one that has asked for nothing longest goes: nobody is shut out by silence.
void HttpPage::accept(std::list<Connection>& connections) const {
  for (size_t i = 0; i < kMostConnections; ++i) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // else it would spin
      return;
    }
    if (connections.size() >= kMostConnections) {
      answer(connections);  // whose request is here
      const auto silent = [](const Connection& c) { return c.state != Connection::State::writes; };
      const auto oldest = std::ranges::find_if(connections, silent);
      connections.erase(oldest == connections.end() ? connections.begin() : oldest);
    }
    connections.emplace_back(std::move(socket), options_.patience);
  }
}

}  // namespace troupe::ps
