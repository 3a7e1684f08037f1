#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/tensor/buffer.h>
#include <troupe/ps/transport/internal/shared_memory.h>

namespace troupe::ps {

/// The heap of another process, mapped to be read. Thread-safe.
class PeerHeap : public std::enable_shared_from_this<PeerHeap> {
 public:
  explicit PeerHeap(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  uint64_t bytes() const { return memory_->bytes(); }
  const std::byte* data() const { return memory_->data(); }

  /// What lies there, as long as somebody views it; `block` as long. It is within bytes(). Null once it was let go.
  BufferPtr borrow(uint64_t place, uint64_t bytes, BufferPtr block);
  /// Its process has ended: what is viewed is copied to where it is viewed, and nothing else of it is there any more.
  /// Otherwise one tensor that is held for long would keep all that the process had.
  void let_go();

 private:
  class Borrowed;
  void give_back(uint64_t place, uint64_t bytes);

  const std::shared_ptr<SharedMemory> memory_;
  std::mutex mutex_;  // guards what follows
  std::multimap<uint64_t, uint64_t> viewed_;  // bytes, by place
  bool gone_ = false;
};

/// The heaps that this process has mapped: each once, whatever number of rings comes from its process, for as long as
/// anybody holds it. Of one process one heap at a time, so that none can fill this one's address space. Thread-safe.
class PeerHeaps {
 public:
  /// Null where it is no heap (SharedMemory::open), is larger than a heap can be, or its process has another one here.
  std::shared_ptr<PeerHeap> open(const SharedOffer& heap);
  /// Those whose processes have ended since the last call, to be let go once what they had sent is handed over. A system
  /// call for each that is mapped.
  std::vector<std::shared_ptr<PeerHeap>> take_ended();

 private:
  struct Mapped {
    SharedOffer offer;
    FileDescriptor process;
    std::weak_ptr<PeerHeap> heap;
  };

  std::mutex mutex_;
  std::map<int32_t, Mapped> mapped_;  // by process
};

}  // namespace troupe::ps
