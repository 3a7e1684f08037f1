#include <troupe/ps/metrics/http_page.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{2};
constexpr size_t kMostRequestBytes = 8192;

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

Result<FileDescriptor> listen_at(const std::string& where) {
  const auto [host, port] = split(where);
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorKind::invalid, cat("cannot listen on ", where, ": ", why));
  };
  if (host.empty() || port.empty()) return refuse("an address is HOST:PORT, port 0 for a free one");
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return refuse(::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  FileDescriptor listener(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (listener.get() < 0 || ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(listener.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(listener.get(), 16) != 0) {
    const char* const taken = ": another program listens there; choose another port, or port 0 for a free one";
    return refuse(cat(std::strerror(errno), errno == EADDRINUSE ? taken : ""));
  }
  return listener;
}

/// False: not within the time.
bool wait_for(int connection, short event, Clock::time_point until) {
  pollfd poll{connection, event, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return left > 0 && ::poll(&poll, 1, static_cast<int>(left)) == 1;
}

/// The head of a request, as far as it came.
std::string read_head(int connection, Clock::time_point until) {
  std::string head;
  char buffer[1024];
  while (head.size() < kMostRequestBytes && head.find("\r\n\r\n") == std::string::npos &&
         wait_for(connection, POLLIN, until)) {
    const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
    if (n <= 0) break;
    head.append(buffer, static_cast<size_t>(n));
  }
  return head;
}

void write_all(int connection, const std::string& text, Clock::time_point until) {
  for (size_t done = 0; done < text.size() && wait_for(connection, POLLOUT, until);) {
    const ssize_t n = ::send(connection, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

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

void HttpPage::serve() {
  for (;;) {
    pollfd polls[] = {{ends_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    ::poll(polls, 2, -1);
    if (polls[0].revents != 0) return;
    const FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.get() >= 0) answer(connection.get());
    else if (polls[1].revents != 0 && errno != EAGAIN && errno != ECONNABORTED)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // out of descriptors
  }
}

void HttpPage::answer(int connection) const {
  const auto until = Clock::now() + kPatience;
  const std::string head = read_head(connection, until);
  const std::string plain = "text/plain; charset=utf-8", line = head.substr(0, head.find("\r\n"));
  std::string said;
  if (head.find("\r\n\r\n") == std::string::npos) {
    said = response("400 Bad Request", plain, "no request came\n");
  } else if (!line.starts_with("GET ")) {
    said = response("405 Method Not Allowed", plain, "only GET\n");
  } else if (const std::string target = line.substr(4, line.find(' ', 4) - 4);
             target.substr(0, target.find('?')) != options_.path) {
    said = response("404 Not Found", plain, "here is only " + options_.path + "\n");
  } else if (const auto text = text_()) {
    said = response("200 OK", options_.content_type, *text);
  } else {
    said = response("503 Service Unavailable", plain, "no answer now\n");
  }
  write_all(connection, said, Clock::now() + kPatience);
}

}  // namespace troupe::ps
