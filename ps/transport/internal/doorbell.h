#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <troupe/ps/transport/internal/shared_memory.h>

namespace troupe::ps {

/// Wakes the one thread that reads all rings into a process. It lies in shared memory of its own, which every process
/// that sends to this one maps. Whoever writes there what does not belong there can cost wake-ups, nothing else.
///
/// The reader says that it is going to sleep, then looks at its rings once more; a sender puts its message into the
/// ring, then looks whether the reader sleeps. All four are sequentially consistent, so one of the two sees the other,
/// and a sender makes a system call only where somebody sleeps.
class Doorbell {
 public:
  static Result<Doorbell> create();
  static Result<Doorbell> open(const SharedOffer& offer);

  SharedOffer offer() const { return memory_->offer(); }

  /// Any thread of any process, after its message is in the ring.
  void ring();
  /// Reader: from now on `ring` wakes. To be followed by a look at all rings, then `wait` or `stay`.
  void announce_sleep();
  void stay();
  /// Until somebody rings, but at most so long; may return for no reason.
  void wait(std::chrono::milliseconds at_most);

 private:
  explicit Doorbell(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}
  std::atomic<uint32_t>& asleep() { return *reinterpret_cast<std::atomic<uint32_t>*>(memory_->data()); }

  std::shared_ptr<SharedMemory> memory_;
};

}  // namespace troupe::ps
