#include <troupe/ps/param/step_norm.h>

#include <algorithm>
#include <cmath>

#include <troupe/ps/param/optimizers/blocks.h>

namespace troupe::ps {
namespace {

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

WorkerId culprit_of(const std::vector<GradientPart>& parts) {
  const auto found = std::ranges::find_if(parts, [](const GradientPart& part) { return !all_finite(part.values); });
  return found == parts.end() ? parts.front().worker : found->worker;
}

}  // namespace

SliceNorm measure_rows(const RowParts& parts, int64_t width, ParamKind kind, double scale) {
  if (parts.workers.empty()) return {};
  const RowSum sum(parts.values, width);
  const std::span<const float> values = sum.get().values;
  SliceNorm norm = measure({{parts.workers.front(), values}}, {{0, static_cast<int64_t>(values.size()), kind}}, scale);
  for (size_t i = 0; !norm.finite && i < parts.workers.size(); ++i)
    if (!all_finite(parts.values[i].values)) {
      norm.culprit = parts.workers[i];
      break;
    }
  return norm;
}

SliceNorm measure(const std::vector<GradientPart>& parts, const std::vector<Segment>& segments, double scale) {
  SliceNorm norm;
  if (parts.empty()) return norm;
  std::vector<std::span<const float>> gradients;
  for (const GradientPart& part : parts) gradients.push_back(part.values);
  SliceUpdate sum;
  sum.gradients = gradients;
  double all = 0;
  for (const Segment& segment : segments)
    for_each_block(sum, segment, [&](int64_t, int64_t n, const float* g) {
      const double squares = sum_of_squares(g, n);
      all += squares;
      if (segment.kind != ParamKind::statistic) norm.sum_of_squares += squares;
    });
  norm.sum_of_squares *= scale * scale;
  norm.finite = std::isfinite(all);
  if (norm.finite) return norm;
  norm.culprit = culprit_of(parts);
  return norm;
}

SliceNorm norm_of(const GradientMeasure& measure, const std::vector<GradientPart>& parts, double scale) {
  SliceNorm norm{measure.sum_of_squares * (scale * scale), measure.finite};
  if (!norm.finite) norm.culprit = culprit_of(parts);
  return norm;
}

}  // namespace troupe::ps
