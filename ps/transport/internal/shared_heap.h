#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/tensor/buffer.h>
#include <troupe/ps/transport/internal/block_arena.h>
#include <troupe/ps/transport/internal/loans.h>
#include <troupe/ps/transport/internal/shared_layout.h>
#include <troupe/ps/transport/internal/shared_memory.h>

namespace troupe::ps {

/// The part of this process's memory that others of its user and host may read: large gradients and parameters are made
/// here (allocate_to_lend), and a message to such a process names them instead of carrying them. What is lent is not
/// written until it is given back, since whoever publishes a tensor writes it no more, and not freed, since a Loan
/// holds it.
///
/// One a process, like the heap of the system, from the first transport on that shares memory; half as large as the
/// memory of the machine, of which the system gives what is touched. Where it is full, or there is none, tensors are
/// made elsewhere and copied on their way. Thread-safe.
class SharedHeap final : public LargeBlocks {
 public:
  /// Null where the system has no such memory.
  static SharedHeap* of_this_process();
  /// Of every process on this machine.
  static uint64_t size_bytes();

  SharedOffer offer() const { return memory_->offer(); }
  /// Of a byte that lies in it, from the beginning of the memory; never 0.
  std::optional<uint64_t> place_of(const std::byte* data) const;

  std::byte* take(size_t bytes) override;
  bool give_back(std::byte* data, size_t bytes) override;

  /// Of a ring that is written no more: held until `receiver` has given back what it reads, or has ended.
  void keep(std::shared_ptr<SharedMemory> ring, Loans loans, FileDescriptor receiver);
  /// Lets go of what was kept and is read no more; to be called now and then. Bytes that are still kept.
  uint64_t take_back();

 private:
  struct Kept {
    std::shared_ptr<SharedMemory> ring;
    Loans loans;
    FileDescriptor receiver;
  };

  explicit SharedHeap(std::shared_ptr<SharedMemory> memory);
  std::vector<BufferPtr> look_around();  // with mutex_; to be dropped without

  const std::shared_ptr<SharedMemory> memory_;
  const pid_t owner_;
  std::mutex mutex_;  // guards what follows
  BlockArena arena_;
  std::vector<Kept> kept_;
};

}  // namespace troupe::ps
