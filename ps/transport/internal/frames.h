#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/transport/internal/outgoing.h>
#include <troupe/ps/transport/internal/send_window.h>
#include <troupe/ps/transport/keys.h>

/// One message of ours as the parts of one ZeroMQ message, without copying: [route of a ROUTER], head, payloads.
namespace troupe::ps {

enum class Handed {
  yes,
  no_room,  ///< no connection yet, or the peer does not read: later; the message is as it was
  gone,     ///< there is no such peer; the message is lost
};

/// Gives the message to ZeroMQ, which reads the tensors where they are and lets them go (from a thread of its own)
/// once they are written to the connection; until then the message counts in `window`.
Handed hand_over(zmq::socket_ref socket, Outgoing& message, const std::shared_ptr<SendWindow>& window);

/// What came in. Payloads are u8 tensors over the memory that ZeroMQ received them into.
struct Incoming {
  zmq::message_t head;
  std::vector<Tensor> payloads;
  std::string route;                ///< at a ROUTER: answers go there
  std::optional<KeyRole> key_role;  ///< of the key that the sender proved to have; none without keys
  size_t bytes = 0;
  bool shared = false;    ///< through shared memory, whose payloads carry no checksums
  bool too_long = false;  ///< more bytes or parts than allowed; payloads are incomplete
};

/// Takes one message, if there is any. `routed`: the socket is a ROUTER.
bool receive(zmq::socket_ref socket, bool routed, size_t max_bytes, Incoming& message);

/// Who sent it, for people: the peer's address without its port, as the system tells. "?" where it does not.
std::string peer_of(const zmq::message_t& head);

}  // namespace troupe::ps
