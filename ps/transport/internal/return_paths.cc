#include <troupe/ps/transport/internal/return_paths.h>

namespace troupe::ps {

void ReturnPaths::learn(const Endpoint& from, const std::string& route) {
  std::lock_guard lock(mutex_);
  if (const auto known = known_.find(from); known != known_.end()) {
    known->second.route = route;
    ages_.splice(ages_.begin(), ages_, known->second.age);
    return;
  }
  if (known_.size() >= limit_) {
    known_.erase(ages_.back());
    ages_.pop_back();
  }
  ages_.push_front(from);
  known_.emplace(from, Known{route, ages_.begin()});
}

std::string ReturnPaths::to(const Endpoint& endpoint) const {
  std::lock_guard lock(mutex_);
  const auto known = known_.find(endpoint);
  return known == known_.end() ? "" : known->second.route;
}

size_t ReturnPaths::size() const {
  std::lock_guard lock(mutex_);
  return known_.size();
}

}  // namespace troupe::ps
