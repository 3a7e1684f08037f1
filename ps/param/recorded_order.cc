#include <troupe/ps/param/recorded_order.h>

#include <utility>

namespace troupe::ps {

void RecordedOrder::start(std::vector<Shard::Event> order) {
  order_ = std::move(order);
  next_ = 0;
  to_come_.clear();
  for (const auto& event : order_) ++to_come_[key(event)];
}

bool RecordedOrder::must_wait(const Shard::Event& event) const {
  if (ended() || event == order_[next_]) return false;
  return event.kind == Shard::Event::Kind::push || to_come_.contains(key(event));
}

void RecordedOrder::hold(const Shard::Event& event, Envelope envelope) {
  held_.insert_or_assign(key(event), std::move(envelope));
}

void RecordedOrder::happened(const Shard::Event& event) {
  if (ended() || event != order_[next_]) return;
  ++next_;
  if (const auto found = to_come_.find(key(event)); --found->second == 0) to_come_.erase(found);
}

std::optional<Envelope> RecordedOrder::take_ready() {
  const auto found = ended() ? held_.begin() : held_.find(key(order_[next_]));
  if (found == held_.end()) return std::nullopt;
  Envelope envelope = std::move(found->second);
  held_.erase(found);
  return envelope;
}

}  // namespace troupe::ps
