#include <troupe/kernels/nn/gradient_measure.h>

#include <cmath>

#include <troupe/kernels/nn/gradient_source.h>

namespace troupe {

void add_range(std::vector<MeasuredRange>& ranges, MeasuredRange next) {
  if (ranges.empty() || ranges.back().in_norm != next.in_norm || ranges.back().end != next.begin)
    ranges.push_back(next);
  else
    ranges.back().end = next.end;
}

std::vector<MeasuredRange> ranges_to_measure(const LayerSpec& layer, int64_t count, bool norm) {
  if (!norm || layer.params.empty()) return {{0, count, false}};
  if (layer.row_width > 0) return {{0, count, layer.params.front().kind != ParamKind::statistic}};
  std::vector<MeasuredRange> ranges;
  for (const ParamSpec& param : layer.params)
    add_range(ranges, {param.offset, param.offset + param.shape.count(), param.kind != ParamKind::statistic});
  return ranges;
}

// A double holds the square of any float, so that a sum of squares is finite exactly where all elements are. Counting
// what is not costs less where no norm is wanted.
Tensor submit_measure(Stream& stream, const ops::Ops& ops, const Tensor& gradient,
                      std::span<const MeasuredRange> ranges) {
  Tensor numbers = stream.empty({std::ssize(ranges)}, DType::f64);
  for (int64_t i = 0; i < std::ssize(ranges); ++i) {
    const auto& [begin, end, in_norm] = ranges[static_cast<size_t>(i)];
    Tensor number = numbers.view(i, {1});
    const Tensor part = gradient.view(begin, {end - begin});
    in_norm ? ops.sum_of_squares(stream, part, number) : ops.count_non_finite(stream, part, number);
  }
  return numbers;
}

GradientMeasure measure_of(const Tensor& numbers, std::span<const MeasuredRange> ranges) {
  GradientMeasure all;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const double number = numbers.data<double>()[i];
    if (ranges[i].in_norm) all.sum_of_squares += number;
    all.finite = all.finite && (ranges[i].in_norm ? std::isfinite(number) : number == 0);
  }
  return all;
}

}  // namespace troupe
