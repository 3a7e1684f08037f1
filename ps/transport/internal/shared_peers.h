#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/ps/transport/internal/link.h>
#include <troupe/ps/transport/internal/shared_frames.h>
#include <troupe/ps/transport/internal/shared_reader.h>

namespace troupe::ps {

/// The rings in shared memory between this process and others of its host: agrees on them by SharedFrames, gives a
/// link its ring while the connection stands, and reads the rings of others. A ring is one way; whoever has a link
/// offers one.
class SharedPeers {
 public:
  struct Options {
    uint64_t arena_bytes = 0;        ///< of each ring that this process makes
    uint64_t arena_limit_bytes = 0;  ///< of a ring that it reads
  };
  struct Handlers {
    std::function<void(Incoming&)> message;                ///< on the reader's thread
    std::function<void(const std::string& why)> nonsense;  ///< on the reader's thread: a ring that is read no more
    std::function<void(Outgoing)> answer;                  ///< to the connection that it names
  };
  /// Fails where the system has no such memory, or no more of it.
  static Result<std::unique_ptr<SharedPeers>> start(Options options, Handlers handlers);

  // For the I/O thread:
  /// A link's connection stands: offers the peer a ring.
  void connected(Link& link);
  void lost(Link& link);
  /// What the peer said, and where that came from.
  void take(const SharedFrame& frame, const Incoming& message);

  /// No handler is called after. Idempotent.
  void close() { reader_.reset(); }

 private:
  struct Offered {
    std::weak_ptr<Link> link;
    std::shared_ptr<SharedSender> ring;
  };
  /// Where a ring's messages come from, as the connection that it was offered over says.
  struct Source {
    std::string route;
    std::optional<KeyRole> key_role;
  };

  SharedPeers(Options options, Handlers handlers) : options_(options), handlers_(std::move(handlers)) {}

  std::optional<SharedReader::Attached> attach(const SharedFrame& offer, const Incoming& offered_by);
  void accepted(const SharedFrame& frame);
  /// On the reader's thread: what receivers have given back, also to rings that nothing is sent through now.
  void take_back();
  void received(uint64_t number, std::span<const std::byte> head, std::vector<Tensor> payloads);

  const Options options_;
  const Handlers handlers_;
  SharedHeap* const heap_ = SharedHeap::of_this_process();  ///< null: nothing is lent
  std::map<uint64_t, Offered> offered_;  ///< by token; the I/O thread's

  std::mutex mutex_;  ///< guards what follows
  std::map<uint64_t, Source> sources_;
  std::vector<std::weak_ptr<SharedSender>> lending_;
  uint64_t attached_ = 0;  ///< so many so far

  std::unique_ptr<SharedReader> reader_;  ///< last: its thread uses all the rest
};

}  // namespace troupe::ps
