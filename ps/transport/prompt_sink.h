#pragma once
#include <cstddef>
#include <utility>

#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

/// A Transport::Sink that can do more than hand over: on a thread of the transport's own it may do what a message asks
/// for before it returns, because to wake another thread can take longer than all else that a small message costs.
/// A transport without such a thread takes it for any other sink.
class PromptSink {
 public:
  using Take = Transport::Sink;
  /// Messages of more than `most_bytes` are only handed over.
  PromptSink(Take hand_over, Take take_here, size_t most_bytes)
      : hand_over_(std::move(hand_over)), take_here_(std::move(take_here)), most_bytes_(most_bytes) {}

  void operator()(EnvelopePtr envelope) const { hand_over_(std::move(envelope)); }
  /// For a thread that holds no lock and has time.
  void take_here(EnvelopePtr envelope) const { take_here_(std::move(envelope)); }
  size_t most_bytes() const { return most_bytes_; }

 private:
  Take hand_over_, take_here_;
  size_t most_bytes_;
};

}  // namespace troupe::ps
