#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// One page over HTTP/1.1, for programs that fetch it now and then: GET of its path gives it, anything else an error.
/// One connection at a time, for two seconds at most, and 8 KB of request: nobody who connects costs more than that.
class HttpPage {
 public:
  struct Options {
    std::string listen;  ///< "HOST:PORT", "[IPV6]:PORT"; port 0: a free one
    std::string path;    ///< "/metrics"
    std::string content_type;
  };
  /// `text` is called on the page's own thread; nothing: 503, the run cannot say now. Fails where the address cannot
  /// be had.
  static Result<std::unique_ptr<HttpPage>> open(const Options& options,
                                                std::function<std::optional<std::string>()> text);
  /// Waits for a call of `text` that is under way.
  ~HttpPage();

  /// "HOST:PORT" that it listens at.
  const std::string& address() const { return address_; }

 private:
  HttpPage() = default;
  void serve();
  void answer(int connection) const;

  Options options_;
  std::function<std::optional<std::string>()> text_;
  std::string address_;
  FileDescriptor listener_{-1}, ends_{-1};  // the second is readable once it ends
  std::thread thread_;
};

/// Whether an address as in Options reaches this host only: 127.0.0.0/8, ::1, "localhost".
bool is_loopback(const std::string& listen);

}  // namespace troupe::ps
