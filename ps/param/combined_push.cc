#include <troupe/ps/param/combined_push.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

// Floats hold these exactly.
constexpr float kMostWorkers = 1 << 20;

size_t expected(const Push& push, size_t slices) { return push.samples > 0 ? slices : 0; }

}  // namespace

void cover(Push& push, std::span<const WorkerId> others) {
  if (others.empty()) return;
  TROUPE_CHECK(std::ranges::is_sorted(others), others.size(), " workers out of order");
  std::vector<float> numbers(others.begin(), others.end());
  push.gradients.push_back(Tensor::from<float>(numbers, {static_cast<int64_t>(numbers.size())}));
}

std::span<const Tensor> gradients_of(const Push& push, size_t slices) {
  return std::span(push.gradients).first(std::min(push.gradients.size(), expected(push, slices)));
}

std::vector<WorkerId> covered_by(const Push& push, size_t slices) {
  if (push.gradients.size() != expected(push, slices) + 1) return {};
  const Tensor& last = push.gradients.back();
  if (!last || last.dtype() != DType::f32) return {};
  std::vector<WorkerId> workers;
  for (const float number : last.span<float>()) {
    if (!(number >= 0 && number < kMostWorkers)) return {};
    const auto worker = static_cast<WorkerId>(number);
    if (static_cast<float>(worker) != number || (!workers.empty() && worker <= workers.back())) return {};
    workers.push_back(worker);
  }
  return workers;
}

}  // namespace troupe::ps
