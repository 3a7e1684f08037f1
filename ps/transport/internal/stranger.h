#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <troupe/ps/transport/internal/outgoing.h>

/// Messages that the codec refuses because they are of another protocol version or run: who sent them, and an answer
/// that the sender can read. Only this file looks at envelopes of other versions.
namespace troupe::ps {

struct Stranger {
  uint16_t protocol = 0;
  wire::RunId run = 0;
  Endpoint from, to;
  bool hello = false;  ///< it wants to join, and waits for an answer
};

/// None where the head is no envelope at all.
std::optional<Stranger> stranger_in(std::span<const std::byte> head);

/// `Rejected{reason}`, under the stranger's own protocol number and run, so that its codec takes it.
wire::Frames rejection(const Stranger& stranger, const std::string& reason);

}  // namespace troupe::ps
