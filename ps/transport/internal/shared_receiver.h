#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/transport/internal/peer_heaps.h>
#include <troupe/ps/transport/internal/shared_layout.h>
#include <troupe/ps/transport/internal/shared_memory.h>

namespace troupe::ps {

/// The receiving end of what one SharedSender sends. One thread at a time.
class SharedReceiver {
 public:
  /// `head` is a private copy, valid during the call. Payloads are u8 tensors, aligned to 64 bytes and not to be
  /// written, that view the shared block or the sender's heap: they may be kept as long as wanted (that is room the
  /// sender does not have), outlive this object and be dropped by any thread. Their bytes are the sender's word: it
  /// could still write them.
  using Sink = std::function<void(std::span<const std::byte> head, std::vector<Tensor> payloads)>;

  /// Refuses what does not fit the layout; `limit_bytes` bounds the sender's arena. `heap`: the sender's;
  /// null where it lends nothing.
  static Result<std::unique_ptr<SharedReceiver>> open(const SharedOffer& offer, uint64_t limit_bytes,
                                                      std::shared_ptr<PeerHeap> heap = nullptr);
  /// What waits is given back unread.
  ~SharedReceiver();
  /// There is a message. Cheap; sequentially consistent with a sender's look at the doorbell.
  bool waiting() const { return next_entry().turn.load() == received_ + 1; }

  /// No more is to come than what waits: the sender said so.
  bool closed() const { return control_.closed.load(std::memory_order_acquire) != 0; }
  /// Nor here: its process has ended. A system call.
  bool orphaned() const;

  /// Hands the next message to `sink`; false where none is there. An error says what of the sender's description makes
  /// no sense; nothing it sends is worth reading from then on.
  Result<bool> receive(const Sink& sink);

 private:
  SharedReceiver(std::shared_ptr<SharedMemory> memory, std::shared_ptr<PeerHeap> heap, FileDescriptor process)
      : memory_(std::move(memory)),
        heap_(std::move(heap)),
        process_(std::move(process)),
        control_(*reinterpret_cast<shared::Control*>(memory_->data())) {}
  shared::Entry& next_entry() const { return control_.ring[received_ % shared::kBlocks]; }

  const std::shared_ptr<SharedMemory> memory_;
  const std::shared_ptr<PeerHeap> heap_;  // null: the sender lends nothing
  const FileDescriptor process_;  // readable once it has ended
  shared::Control& control_;
  uint64_t received_ = 0;
  std::vector<std::byte> head_;
};

}  // namespace troupe::ps
