#include <troupe/ps/transport/internal/peer_heaps.h>

#include <utility>
#include <vector>

#include <troupe/ps/transport/internal/process_handle.h>
#include <troupe/ps/transport/internal/shared_heap.h>

namespace troupe::ps {

class PeerHeap::Borrowed final : public Buffer {
 public:
  Borrowed(std::shared_ptr<PeerHeap> heap, uint64_t place, uint64_t bytes, BufferPtr block)
      : Buffer(heap->memory_->data() + place, bytes, Device{}, [](Buffer&) {}, false),
        heap_(std::move(heap)),
        place_(place),
        block_(std::move(block)) {}
  ~Borrowed() { heap_->give_back(place_, bytes()); }

 private:
  const std::shared_ptr<PeerHeap> heap_;
  const uint64_t place_;
  const BufferPtr block_;
};

BufferPtr PeerHeap::borrow(uint64_t place, uint64_t bytes, BufferPtr block) {
  std::lock_guard lock(mutex_);
  if (gone_) return nullptr;
  viewed_.emplace(place, bytes);
  return std::make_shared<Borrowed>(shared_from_this(), place, bytes, std::move(block));
}

void PeerHeap::give_back(uint64_t place, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto [at, end] = viewed_.equal_range(place);
  while (at != end && at->second != bytes) ++at;
  if (at != end) viewed_.erase(at);
}

void PeerHeap::let_go() {
  std::lock_guard lock(mutex_);
  if (std::exchange(gone_, true)) return;
  std::vector<SharedMemory::Range> ranges;
  for (const auto& [place, bytes] : viewed_) ranges.push_back({place, bytes});
  memory_->keep_copies(ranges);
}

std::shared_ptr<PeerHeap> PeerHeaps::open(const SharedOffer& heap) {
  if (heap.bytes == 0) return nullptr;
  std::lock_guard lock(mutex_);
  std::erase_if(mapped_, [](const auto& each) { return each.second.heap.expired(); });
  if (const auto found = mapped_.find(heap.pid); found != mapped_.end())
    return found->second.offer == heap ? found->second.heap.lock() : nullptr;
  // Before the memory: a process that has this memory open is the one that the number means.
  FileDescriptor process = open_process(heap.pid);
  auto memory = SharedMemory::open(heap, SharedHeap::size_bytes(), SharedMemory::Access::read);
  if (process.get() < 0 || !memory) return nullptr;
  auto mapped = std::make_shared<PeerHeap>(std::move(*memory));
  mapped_.emplace(heap.pid, Mapped{heap, std::move(process), mapped});
  return mapped;
}

std::vector<std::shared_ptr<PeerHeap>> PeerHeaps::take_ended() {
  std::vector<std::shared_ptr<PeerHeap>> ended;
  std::lock_guard lock(mutex_);
  std::erase_if(mapped_, [&](const auto& each) {
    if (!has_ended(each.second.process)) return false;
    if (auto heap = each.second.heap.lock()) ended.push_back(std::move(heap));
    return true;
  });
  return ended;
}

}  // namespace troupe::ps
