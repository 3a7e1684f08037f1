#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/transport/internal/block_arena.h>
#include <troupe/ps/transport/internal/doorbell.h>
#include <troupe/ps/transport/internal/shared_heap.h>
#include <troupe/ps/transport/internal/shared_layout.h>

namespace troupe::ps {

/// The sending end of messages to one other process. It owns the memory; what the receiver still reads stays mapped
/// there after this end has gone. A receiver that died never gives blocks back: drop the sender with the link.
class SharedSender {
 public:
  /// `arena_bytes`: the most that is on its way and held by the receiver together; touched only when used.
  static Result<std::shared_ptr<SharedSender>> create(uint64_t arena_bytes);
  /// What was sent is still received.
  ~SharedSender();

  /// For the receiver, which answers with its doorbell.
  SharedOffer offer() const { return memory_->offer(); }
  /// Once, before anything is sent.
  void set_doorbell(Doorbell doorbell) { doorbell_.emplace(std::move(doorbell)); }
  /// Once, before anything is sent: `receiver` has mapped this process's heap, and large tensors that lie there are
  /// lent to it from now on.
  void lend(SharedHeap& heap, FileDescriptor receiver);

  /// Puts the message into shared memory, its large tensors by their place in the heap, and wakes the receiver. False,
  /// and nothing is sent, where there is no room now, or the message is larger than the arena or has more than
  /// kMaxPayloads payloads. Never waits for the receiver. Any thread; what one thread sends keeps its order, and other
  /// threads copy at the same time.
  bool send(std::span<const std::byte> head, std::span<const Tensor> payloads);

  /// Bytes of messages that the receiver has not given back: still on their way, or viewed by its tensors.
  uint64_t held_bytes();
  /// And of the buffers whose tensors, or parts of them, it reads where they are: never more than the arena has, but
  /// that one of any size is lent where nothing else is.
  uint64_t lent_bytes();

 private:
  struct Place {
    uint32_t block = 0;
    uint64_t offset = 0, bytes = 0;
  };

  explicit SharedSender(std::shared_ptr<SharedMemory> memory);

  std::vector<shared::Payload> describe(std::span<const Tensor> payloads) const;
  bool may_lend(const std::vector<BufferPtr>& buffers) const;  // with mutex_
  std::optional<Place> take(uint64_t bytes);         // with mutex_
  void collect(std::vector<BufferPtr>& returned);  // with mutex_; to be dropped without
  void publish(const Place& place, uint64_t head_bytes, uint32_t payloads);

  const std::shared_ptr<SharedMemory> memory_;
  shared::Control& control_;
  std::byte* const arena_data_;
  const uint64_t arena_bytes_;
  std::optional<Doorbell> doorbell_;
  SharedHeap* heap_ = nullptr;  // null: nothing is lent
  FileDescriptor receiver_{-1};

  std::mutex mutex_;  // guards what follows, and the order of entries
  BlockArena arena_;
  std::array<std::optional<Place>, shared::kBlocks> receivers_;  // published and not given back, by block
  std::vector<uint32_t> unused_;                                 // block numbers
  Loans loans_;                                                  // by block, from before it is published
  uint64_t sent_ = 0;
};

}  // namespace troupe::ps
