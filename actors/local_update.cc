#include <troupe/actors/local_update.h>

#include <utility>
#include <vector>

namespace troupe {
namespace {

template <class T>
std::span<T> part(std::span<T> values, int64_t begin, int64_t end) {
  return values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

}  // namespace

void update_range(const ps::Optimizer& optimizer, const LayerSpec& layer, const ps::ApplyLocal& task,
                  std::span<const Tensor> gradients, int64_t begin, int64_t end, Tensor& values) {
  std::vector<std::span<const float>> sums;
  for (const Tensor& gradient : gradients) sums.push_back(part(gradient.span<float>(), begin, end));
  std::vector<Tensor> held = task.local.state;
  std::vector<std::span<float>> state;
  for (Tensor& tensor : held) state.push_back(part(tensor.span<float>(), begin, end));
  const std::vector<ps::Segment> segments = ps::segments_of(layer, begin, end);
  ps::SliceUpdate update;
  update.in = part(task.local.values.span<float>(), begin, end);
  update.out = part(values.span<float>(), begin, end);
  update.gradients = sums;
  update.gradient_scale = task.gradient_scale;
  update.clip_scale = task.clip_scale;
  update.state = state;
  update.segments = segments;
  update.schedule_step = task.schedule_step;
  update.updates = task.local.updates;
  optimizer.apply(update);
}

ps::SliceState after_update(const ps::ApplyLocal& task, Tensor values) {
  ps::SliceState after = task.local;
  after.values = std::move(values);
  ++after.updates;
  return after;
}

}  // namespace troupe
