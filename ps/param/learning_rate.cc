#include <algorithm>
#include <cmath>
#include <numbers>

#include <troupe/ps/param/optimizer.h>

namespace troupe::ps {

double learning_rate(const OptimizerOptions& o, int64_t step) {
  if (step < o.warmup_steps)
    return o.learning_rate * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  if (o.schedule == "step")
    return o.learning_rate * std::pow(o.gamma, static_cast<double>(step / std::max<int64_t>(o.step_size, 1)));
  if (o.schedule == "cosine" || o.schedule == "linear") {
    const auto length = static_cast<double>(std::max<int64_t>(o.total_steps - o.warmup_steps, 1));
    const double progress = std::min(1.0, static_cast<double>(step - o.warmup_steps) / length);
    const double left = o.schedule == "linear" ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
    return o.min_rate + (o.learning_rate - o.min_rate) * left;
  }
  return o.learning_rate;
}

}  // namespace troupe::ps
