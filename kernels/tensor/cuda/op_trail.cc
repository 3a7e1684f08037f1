#include <troupe/kernels/tensor/cuda/op_trail.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>

namespace troupe::cuda {

void OpTrail::submitted(const char* op) {
  own_->names[own_->submitted % kKept] = op;
  ++own_->submitted;
}

void OpTrail::follow(const OpTrail& earlier) {
  std::erase_if(followed_, [](const auto& mark) { return mark.first->passed >= mark.second; });
  for (const auto& mark : earlier.marks()) {
    const auto known = std::ranges::find(followed_, mark.first, &Marks::value_type::first);
    if (known == followed_.end())
      followed_.push_back(mark);
    else
      known->second = std::max(known->second, mark.second);
  }
}

OpTrail::Marks OpTrail::marks() const {
  Marks marks = followed_;
  marks.emplace_back(own_, own_->submitted);
  return marks;
}

void OpTrail::passed(const Marks& marks) {
  for (const auto& [ops, position] : marks) {
    uint64_t before = ops->passed;
    while (before < position && !ops->passed.compare_exchange_weak(before, position)) {
    }
  }
}

OpTrail::Suspects OpTrail::suspects() const {
  Suspects found;
  for (const auto& [ops, position] : marks()) {
    const uint64_t passed = ops->passed, kept = ops->submitted > kKept ? ops->submitted - kKept : 0;
    found.more = found.more || passed < std::min(kept, position);
    for (uint64_t i = std::max(passed, kept); i < position; ++i) found.names.push_back(ops->names[i % kKept]);
  }
  return found;
}

std::string OpTrail::Suspects::text() const {
  std::vector<std::string> once;
  for (const char* name : names)
    if (std::ranges::find(once, name) == once.end()) once.push_back(name);
  if (once.empty()) return "no op was under way on this stream: another stream's is at fault";
  if (once.size() == 1 && !more) return "the op at fault is " + once.front();
  std::string text = "at fault is an op that was under way: " + once.front();
  for (size_t i = 1; i < once.size(); ++i) text += cat(i + 1 < once.size() || more ? ", " : " or ", once[i]);
  return cat(text, more ? " or one before them" : "",
             " (CUDA_LAUNCH_BLOCKING=1 in the environment makes it the last one named)");
}

}  // namespace troupe::cuda
