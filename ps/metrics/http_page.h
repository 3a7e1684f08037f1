#pragma once
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// One page over HTTP/1.1, for programs that fetch it now and then: GET of its path gives it, anything else an error.
/// Whoever connects has `patience` to say a request of 8 KB at most, and as long to take the answer, however slowly
/// bytes come and go. Of 32 connections at once the one that has asked for nothing longest makes place for another.
class HttpPage {
 public:
  struct Options {
    std::string listen;  ///< "HOST:PORT", "[IPV6]:PORT"; port 0: a free one
    std::string path;    ///< "/metrics"
    std::string content_type;
    std::chrono::milliseconds patience{2000};  ///< for a whole request, and for its answer
  };
  /// `text` is called on the page's own thread; nothing, or an exception: 503, the run cannot say now. Fails where none
  /// of the host's addresses can be had.
  static Result<std::unique_ptr<HttpPage>> open(const Options& options,
                                                std::function<std::optional<std::string>()> text);
  /// Waits for a call of `text` that is under way.
  ~HttpPage();

  /// "HOST:PORT" that it listens at.
  const std::string& address() const { return address_; }

 private:
  struct Connection;
  HttpPage() = default;
  void serve();
  bool wait(const std::list<Connection>& connections) const;
  void answer(std::list<Connection>& connections) const;
  std::string refuse(const Connection& connection) const;
  std::string make() const;
  void accept(std::list<Connection>& connections) const;

  Options options_;
  std::function<std::optional<std::string>()> text_;
  std::string address_;
  FileDescriptor listener_{-1}, ends_{-1};  // the second is readable once it ends
  std::thread thread_;
};

/// Whether an address as in Options reaches this host only: 127.0.0.0/8, ::1, "localhost".
bool is_loopback(const std::string& listen);

}  // namespace troupe::ps
