#pragma once
#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <troupe/ps/transport/internal/outgoing.h>

namespace troupe::ps {

/// What waits to be sent to one peer: the most urgent first, equal urgency in order of arrival. Bounded, because a
/// peer may stall for long: senders repeat what is lost, so that dropping is always safe, and what they repeat
/// meanwhile must not pile up. Not thread-safe.
class SendQueue {
 private:
  using Waiting = std::map<std::pair<uint32_t, uint64_t>, Outgoing>;  ///< by urgency, then arrival

 public:
  struct Limits {
    size_t bytes = size_t{1} << 30;
    size_t messages = 16384;
  };
  explicit SendQueue(Limits limits) : limits_(limits) {}

  using Popped = Waiting::node_type;  ///< `mapped()` is the message

  struct Pushed {
    bool repeated = false;  ///< an equal message waits already; this one was dropped
    size_t dropped = 0;     ///< messages dropped for want of room: the least urgent, newest first, maybe this one
  };
  /// Takes the message. A queue that is empty takes one of any size.
  Pushed push(Outgoing message);

  /// Takes the most urgent out of the queue, which is not empty. What cannot be sent now goes back to its place.
  Popped pop();
  void put_back(Popped popped);

  bool empty() const { return waiting_.empty(); }
  size_t messages() const { return waiting_.size(); }
  size_t bytes() const { return bytes_; }
  void clear();

 private:
  void enter(const Outgoing& message);
  void leave(const Outgoing& message);

  Limits limits_;
  Waiting waiting_;
  std::unordered_set<std::string_view> heads_;  ///< of `waiting_`: equal heads are equal messages, checksums included
  size_t bytes_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace troupe::ps
