#include <troupe/ps/transport/internal/shared_sender.h>

#include <bit>
#include <cstring>

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
}

bool SharedSender::send(std::span<const std::byte> head, std::span<const Tensor> payloads) {
  if (payloads.size() > kMaxPayloads) return false;
  std::vector<uint64_t> lengths(payloads.size()), places(payloads.size());
  for (size_t i = 0; i < payloads.size(); ++i) lengths[i] = payloads[i].bytes();
  const auto plan = plan_block(head.size(), lengths, arena_bytes_, [&](size_t i, uint64_t at) { places[i] = at; });
  if (!plan) return false;
  const auto place = take(plan->bytes);
  if (!place) return false;

  std::byte* const to = arena_data_ + place->offset;
  if (!lengths.empty()) std::memcpy(to, lengths.data(), lengths.size() * 8);
  if (!head.empty()) std::memcpy(to + plan->head, head.data(), head.size());
  for (size_t i = 0; i < payloads.size(); ++i)
    if (lengths[i]) std::memcpy(to + places[i], payloads[i].raw(), lengths[i]);

  publish(*place, head.size(), static_cast<uint32_t>(payloads.size()));
  doorbell_->ring();
  return true;
}

std::optional<SharedSender::Place> SharedSender::take(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  collect();
  if (unused_.empty()) return std::nullopt;
  const auto offset = arena_.take(bytes);
  if (!offset) return std::nullopt;
  const Place place{unused_.back(), *offset, bytes};
  unused_.pop_back();
  return place;
}

void SharedSender::collect() {
  for (uint32_t word = 0; word < control_.freed.size(); ++word) {
    if (control_.freed[word].load(std::memory_order_relaxed) == 0) continue;
    for (uint64_t bits = control_.freed[word].exchange(0, std::memory_order_acquire); bits; bits &= bits - 1) {
      const uint32_t block = word * kBitsAWord + static_cast<uint32_t>(std::countr_zero(bits));
      if (!receivers_[block]) continue;  // a receiver that lies
      arena_.give_back(receivers_[block]->offset, receivers_[block]->bytes);
      receivers_[block].reset();
      unused_.push_back(block);
    }
  }
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

uint64_t SharedSender::held_bytes() {
  std::lock_guard lock(mutex_);
  collect();
  uint64_t sum = 0;
  for (const auto& place : receivers_) sum += place ? place->bytes : 0;
  return sum;
}

}  // namespace troupe::ps
