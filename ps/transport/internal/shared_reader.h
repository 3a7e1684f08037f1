#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/ps/transport/internal/doorbell.h>
#include <troupe/kernels/base/lookout.h>
#include <troupe/ps/transport/internal/peer_heaps.h>
#include <troupe/ps/transport/internal/shared_receiver.h>

namespace troupe::ps {

/// The one thread of a process that reads what other processes send through shared memory, in turns, so that none waits
/// for another's long queue. `attach`, `detach` and `doorbell` from any thread, also from the two functions below.
class SharedReader {
 public:
  /// Both are called on the reader's thread and return soon. A link is whatever number `attach` gave.
  struct Sinks {
    std::function<void(uint64_t link, std::span<const std::byte> head, std::vector<Tensor> payloads)> message;
    /// The link is detached: by `detach`, by its sender, or because of the nonsense that its sender wrote.
    std::function<void(uint64_t link, const Status& why)> ended;
    /// About once a second, when the thread looks around for senders that have died. May be empty.
    std::function<void()> looking_around;
  };
  struct Options {
    uint64_t arena_limit_bytes = uint64_t{1} << 30;  ///< a sender with more is refused
    std::chrono::microseconds look{0};               ///< how long a Lookout looks before the thread sleeps
  };

  static Result<std::unique_ptr<SharedReader>> start(Sinks sinks, Options options);
  /// No sink is called from then on.
  ~SharedReader();

  /// What senders must map to wake this process.
  SharedOffer doorbell() const { return bell_.offer(); }

  /// Messages of this sender go to the sink from now on, until it closes its end or its process ends. Links are
  /// numbered by the caller, each number once. `heap`: the sender's, of no bytes where it lends nothing.
  struct Attached {
    bool borrows = false;  ///< the heap is mapped
  };
  Result<Attached> attach(uint64_t link, const SharedOffer& offer, const SharedOffer& heap = {});
  /// What the sender had finished is still handed over; then its memory is given up, but for what tensors view.
  void detach(uint64_t link);

 private:
  struct Change {
    uint64_t link = 0;
    std::unique_ptr<SharedReceiver> receiver;  // null: detach
  };

  SharedReader(Doorbell bell, Sinks sinks, Options options);

  void run();
  void apply_changes();
  /// At most `most` messages of one link; false where it had none. A broken link has gone afterwards.
  bool read(uint64_t link, int most);
  bool read_all();
  bool anything_waits();
  /// Lets links go whose senders have. False where there was none.
  bool let_go();
  void finish(uint64_t link);
  void sleep();

  Doorbell bell_;
  const Sinks sinks_;
  const Options options_;
  PeerHeaps heaps_;
  std::map<uint64_t, std::unique_ptr<SharedReceiver>> links_;  // the thread's own, as are the next lines
  std::chrono::steady_clock::time_point next_look_{};
  Lookout lookout_;

  std::mutex mutex_;
  std::vector<Change> changes_;  // guarded by mutex_
  std::atomic<bool> changed_{false}, ended_{false};
  std::thread thread_;
};

}  // namespace troupe::ps
