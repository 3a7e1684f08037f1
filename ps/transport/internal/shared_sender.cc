#include <troupe/ps/transport/internal/shared_sender.h>

#include <cstring>
#include <set>
#include <utility>

namespace troupe::ps {

using namespace shared;

Result<std::shared_ptr<SharedSender>> SharedSender::create(uint64_t arena_bytes) {
  auto memory = SharedMemory::create(sizeof(Control) + arena_bytes);
  if (!memory) return tl::unexpected(memory.error());
  return std::shared_ptr<SharedSender>(new SharedSender(std::move(*memory)));
}

SharedSender::SharedSender(std::shared_ptr<SharedMemory> memory)
    : memory_(std::move(memory)),
      control_(*reinterpret_cast<Control*>(memory_->data())),
      arena_data_(memory_->data() + sizeof(Control)),
      arena_bytes_(memory_->bytes() - sizeof(Control)),
      arena_(arena_bytes_) {
  for (uint32_t block = kBlocks; block-- > 0;) unused_.push_back(block);
}

SharedSender::~SharedSender() {
  control_.closed.store(1, std::memory_order_release);
  if (doorbell_) doorbell_->ring();
  if (!loans_.empty()) heap_->keep(memory_, std::move(loans_), std::move(receiver_));
}

void SharedSender::lend(SharedHeap& heap, FileDescriptor receiver) {
  heap_ = &heap;
  receiver_ = std::move(receiver);
}

std::vector<Payload> SharedSender::describe(std::span<const Tensor> payloads) const {
  std::vector<Payload> out;
  for (const Tensor& payload : payloads) {
    out.push_back({payload.bytes(), 0});
    if (!heap_ || payload.bytes() < LargeBlocks::kLeastBytes) continue;
    if (const auto place = heap_->place_of(payload.raw()); place && *place % kAlignment == 0) out.back().place = *place;
  }
  return out;
}

bool SharedSender::send(std::span<const std::byte> head, std::span<const Tensor> payloads) {
  if (payloads.size() > kMaxPayloads) return false;
  std::vector<Payload> parts = describe(payloads);
  std::vector<uint64_t> offsets(parts.size());
  std::optional<BlockPlan> plan;
  std::optional<Place> place;
  std::vector<BufferPtr> lent, returned;
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].place) lent.push_back(payloads[i].buffer());
  {
    std::lock_guard lock(mutex_);
    collect(returned);
    if (!may_lend(lent)) {
      lent.clear();
      for (Payload& part : parts) part.place = 0;
    }
    plan = plan_block(head.size(), parts, arena_bytes_, [&](size_t i, uint64_t at) { offsets[i] = at; });
    if (!plan || !(place = take(plan->bytes))) return false;
    loans_.lend(place->block, std::move(lent));
  }

  std::byte* const to = arena_data_ + place->offset;
  if (!parts.empty()) std::memcpy(to, parts.data(), parts.size() * sizeof(Payload));
  if (!head.empty()) std::memcpy(to + plan->head, head.data(), head.size());
  for (size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].place && parts[i].bytes) std::memcpy(to + offsets[i], payloads[i].raw(), parts[i].bytes);

  publish(*place, head.size(), static_cast<uint32_t>(parts.size()));
  doorbell_->ring();
  return true;
}

bool SharedSender::may_lend(const std::vector<BufferPtr>& buffers) const {
  uint64_t more = 0;
  std::set<const Buffer*> counted;
  for (const BufferPtr& buffer : buffers)
    if (!loans_.has(*buffer) && counted.insert(buffer.get()).second) more += buffer->bytes();
  const bool first = loans_.empty() && counted.size() == 1;
  return more == 0 || first || (loans_.bytes() <= arena_bytes_ && more <= arena_bytes_ - loans_.bytes());
}

std::optional<SharedSender::Place> SharedSender::take(uint64_t bytes) {
  if (unused_.empty()) return std::nullopt;
  const auto offset = arena_.take(bytes);
  if (!offset) return std::nullopt;
  const Place place{unused_.back(), *offset, bytes};
  unused_.pop_back();
  return place;
}

void SharedSender::collect(std::vector<BufferPtr>& returned) {
  take_freed(control_, [&](uint32_t block) {
    if (!receivers_[block]) return;  // a receiver that lies
    arena_.give_back(receivers_[block]->offset, receivers_[block]->bytes);
    receivers_[block].reset();
    unused_.push_back(block);
    loans_.take_back(block, returned);
  });
}

void SharedSender::publish(const Place& place, uint64_t head_bytes, uint32_t payloads) {
  std::lock_guard lock(mutex_);
  receivers_[place.block] = place;
  Entry& entry = control_.ring[sent_ % kBlocks];
  entry.offset.store(place.offset, std::memory_order_relaxed);
  entry.bytes.store(place.bytes, std::memory_order_relaxed);
  entry.head_bytes.store(head_bytes, std::memory_order_relaxed);
  entry.block.store(place.block, std::memory_order_relaxed);
  entry.payloads.store(payloads, std::memory_order_relaxed);
  entry.turn.store(++sent_);  // and before the look at the doorbell
}

uint64_t SharedSender::lent_bytes() {
  std::vector<BufferPtr> returned;
  std::lock_guard lock(mutex_);
  collect(returned);
  return loans_.bytes();
}

uint64_t SharedSender::held_bytes() {
  std::vector<BufferPtr> returned;
  std::lock_guard lock(mutex_);
  collect(returned);
  uint64_t sum = 0;
  for (const auto& place : receivers_) sum += place ? place->bytes : 0;
  return sum;
}

}  // namespace troupe::ps
