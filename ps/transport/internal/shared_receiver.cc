#include <troupe/ps/transport/internal/shared_receiver.h>

#include <cerrno>
#include <cstring>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/transport/internal/process_handle.h>

namespace troupe::ps {

using namespace shared;

namespace {

void give_back(Control& control, uint32_t block) {
  control.freed[block / kBitsAWord].fetch_or(uint64_t{1} << block % kBitsAWord, std::memory_order_release);
}

/// A block as long as somebody views it.
class BlockBuffer final : public Buffer {
 public:
  BlockBuffer(std::shared_ptr<SharedMemory> memory, Control& control, uint32_t block, std::byte* data, uint64_t bytes)
      : Buffer(data, bytes, Device{}, [](Buffer&) {}, false),
        memory_(std::move(memory)),
        control_(control),
        block_(block) {}
  ~BlockBuffer() { give_back(control_, block_); }

 private:
  const std::shared_ptr<SharedMemory> memory_;
  Control& control_;  // in that memory
  const uint32_t block_;
};

}  // namespace

Result<std::unique_ptr<SharedReceiver>> SharedReceiver::open(const SharedOffer& offer, uint64_t limit_bytes,
                                                              std::shared_ptr<PeerHeap> heap) {
  if (offer.bytes < sizeof(Control)) return fail(ErrorKind::invalid, "the offered memory is too small for a ring");
  // Before the memory: a process that has this memory open is the one that the number means.
  FileDescriptor process = open_process(offer.pid);
  if (process.get() < 0) return fail(ErrorKind::missing, cat("process ", offer.pid, ": ", std::strerror(errno)));
  auto memory = SharedMemory::open(offer, sizeof(Control) + limit_bytes);
  if (!memory) return tl::unexpected(memory.error());
  (*memory)->only_read_from(sizeof(Control));
  return std::unique_ptr<SharedReceiver>(new SharedReceiver(std::move(*memory), std::move(heap), std::move(process)));
}

SharedReceiver::~SharedReceiver() {
  for (uint32_t left = kBlocks; left-- > 0 && waiting(); ++received_)
    if (const uint32_t block = next_entry().block.load(std::memory_order_relaxed); block < kBlocks)
      give_back(control_, block);
}

bool SharedReceiver::orphaned() const { return has_ended(process_); }

Result<bool> SharedReceiver::receive(const Sink& sink) {
  const Entry& entry = next_entry();
  if (entry.turn.load(std::memory_order_acquire) != received_ + 1) return false;
  // Each number is read once; what has been checked is what is used.
  const uint64_t offset = entry.offset.load(std::memory_order_relaxed);
  const uint64_t bytes = entry.bytes.load(std::memory_order_relaxed);
  const uint64_t head_bytes = entry.head_bytes.load(std::memory_order_relaxed);
  const uint32_t block = entry.block.load(std::memory_order_relaxed);
  const uint32_t payload_count = entry.payloads.load(std::memory_order_relaxed);
  const uint64_t arena_bytes = memory_->bytes() - sizeof(Control);
  const auto nonsense = [&](const char* what) {
    return fail(ErrorKind::corrupt,
                cat("message ", received_ + 1, " in shared memory ", what, ": block ", block, " at ", offset, ", ",
                    bytes, " bytes, head ", head_bytes, ", payloads ", payload_count));
  };
  if (block >= kBlocks || offset % kAlignment != 0 || offset > arena_bytes || bytes > arena_bytes - offset)
    return nonsense("lies outside of its arena");
  if (payload_count > bytes / sizeof(Payload)) return nonsense("is too short for its payloads");
  if (payload_count > kMaxPayloads) return nonsense("has too many payloads");

  std::byte* const from = memory_->data() + sizeof(Control) + offset;
  std::vector<Payload> parts(payload_count);
  std::vector<uint64_t> offsets(payload_count);
  if (payload_count) std::memcpy(parts.data(), from, payload_count * sizeof(Payload));
  const auto plan = plan_block(head_bytes, parts, bytes, [&](size_t i, uint64_t at) { offsets[i] = at; });
  if (!plan) return nonsense("is too short for its parts");
  const auto lent = [&](const Payload& p) {
    return heap_ && p.place % kAlignment == 0 && p.place <= heap_->bytes() && p.bytes <= heap_->bytes() - p.place;
  };
  for (const Payload& part : parts)
    if (part.place != 0 && !lent(part)) return nonsense("names memory outside of the sender's heap");
  head_.resize(head_bytes);
  if (head_bytes) std::memcpy(head_.data(), from + plan->head, head_bytes);
  ++received_;

  std::vector<Tensor> payloads;
  if (payload_count == 0) {
    give_back(control_, block);
  } else {
    const BufferPtr buffer = std::make_shared<BlockBuffer>(memory_, control_, block, from, bytes);
    for (uint32_t i = 0; i < payload_count; ++i) {
      const Shape shape{static_cast<int64_t>(parts[i].bytes)};
      if (parts[i].place == 0) {
        payloads.emplace_back(buffer, offsets[i], shape, DType::u8);
        continue;
      }
      BufferPtr borrowed = heap_->borrow(parts[i].place, parts[i].bytes, buffer);
      if (!borrowed) return nonsense("names memory of a process that has ended");
      payloads.emplace_back(std::move(borrowed), 0, shape, DType::u8);
    }
  }
  sink(head_, std::move(payloads));
  return true;
}

}  // namespace troupe::ps
