#pragma once
#include <functional>
#include <memory>
#include <string>
#include <zmq.hpp>

#include <troupe/ps/transport/keys.h>

namespace troupe::ps {

/// Decides which keys may connect to the sockets of one context (ZAP, https://rfc.zeromq.org/spec/27/): those of the
/// list. Connections are tagged with the role of their key. For one thread, which polls `fd` and calls `serve`.
class ZapHandler {
 public:
  ZapHandler(zmq::context_t& context, std::shared_ptr<const Keys> keys,
             std::function<void(const std::string& peer, const std::string& why)> refused);

  int fd() const { return fd_; }
  /// Answers all requests that there are.
  void serve();

 private:
  const std::shared_ptr<const Keys> keys_;
  const std::function<void(const std::string&, const std::string&)> refused_;
  zmq::socket_t socket_;
  int fd_;
};

}  // namespace troupe::ps
