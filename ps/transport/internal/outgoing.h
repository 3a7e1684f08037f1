#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include <troupe/ps/wire/codec.h>

namespace troupe::ps {

/// A message that is encoded and waits to be sent.
struct Outgoing {
  wire::Frames frames;
  uint32_t urgency = 0;  ///< lower goes first (urgency.h)
  std::string route;     ///< of an answer over a connection that the peer made: the ROUTER's name for it; else empty

  /// What it counts for in queues and windows. Even the smallest message costs some memory on its way.
  size_t bytes() const {
    size_t sum = 256 + frames.head.size();
    for (const Tensor& payload : frames.payloads) sum += payload.bytes();
    return sum;
  }
};

}  // namespace troupe::ps
