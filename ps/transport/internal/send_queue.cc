#include <troupe/ps/transport/internal/send_queue.h>

#include <iterator>

namespace troupe::ps {
namespace {

std::string_view head_of(const Outgoing& message) {
  return {reinterpret_cast<const char*>(message.frames.head.data()), message.frames.head.size()};
}

}  // namespace

SendQueue::Pushed SendQueue::push(Outgoing message) {
  if (heads_.contains(head_of(message))) return {.repeated = true};
  const size_t bytes = message.bytes();
  const uint32_t urgency = message.urgency;
  Pushed result;
  while (!waiting_.empty() && (bytes_ + bytes > limits_.bytes || waiting_.size() >= limits_.messages)) {
    ++result.dropped;
    const auto last = std::prev(waiting_.end());
    if (last->first.first <= urgency) return result;
    leave(last->second);
    waiting_.erase(last);
  }
  const auto at = waiting_.emplace(std::pair{urgency, arrivals_++}, std::move(message)).first;
  enter(at->second);
  return result;
}

SendQueue::Popped SendQueue::pop() {
  leave(waiting_.begin()->second);
  return waiting_.extract(waiting_.begin());
}

void SendQueue::put_back(Popped popped) { enter(waiting_.insert(std::move(popped)).position->second); }

void SendQueue::enter(const Outgoing& message) {
  heads_.insert(head_of(message));
  bytes_ += message.bytes();
}

void SendQueue::leave(const Outgoing& message) {
  bytes_ -= message.bytes();
  heads_.erase(head_of(message));
}

void SendQueue::clear() {
  heads_.clear();
  waiting_.clear();
  bytes_ = 0;
}

}  // namespace troupe::ps
