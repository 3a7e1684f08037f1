#pragma once
#include <optional>
#include <span>
#include <vector>

#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/tensor/stream.h>

namespace troupe {

struct LayerSpec;

/// What a run decides by, of one gradient.
struct GradientMeasure {
  double sum_of_squares = 0;  ///< for clipping: without statistics, which are no gradients; 0 where nobody clips
  bool finite = true;         ///< with them
};

/// What a GradientSource is besides where it computes on a device: gradients are measured there as they are worked out,
/// so that nobody reads them again for it. Others leave it to the worker, which reads them in host memory.
class MeasuringSource {
 public:
  virtual ~MeasuringSource() = default;
  /// With the norm, or for NaN alone; from the next `backward` on.
  virtual void measure_gradients(bool norm) = 0;
  /// Within a call of GradientReady: what the gradient that it hands over was measured to be; nothing where it was not.
  virtual std::optional<GradientMeasure> measured() const = 0;
};

/// A range of a gradient that is measured by itself.
struct MeasuredRange {
  int64_t begin = 0, end = 0;
  bool in_norm = true;  ///< part of the norm, and not only looked through for NaN
};

/// Adds a range behind the others, as part of the last one where that is its neighbour and of its kind.
void add_range(std::vector<MeasuredRange>& ranges, MeasuredRange next);

/// The ranges of a layer's gradient of `count` elements (all of the layer's, or some of its rows); `norm`: whether
/// anybody clips. Most layers are one range.
std::vector<MeasuredRange> ranges_to_measure(const LayerSpec& layer, int64_t count, bool norm);

/// Submits what reads the gradient, once, where it lies: one number a range, f64, for `measure_of`. Squares are added
/// in double precision, in an order that depends on the sizes alone and is the backend's own: two backends agree to
/// 1e-12 of the sum.
Tensor submit_measure(Stream& stream, const ops::Ops& ops, const Tensor& gradient,
                      std::span<const MeasuredRange> ranges);
/// What the numbers say, once they are in host memory.
GradientMeasure measure_of(const Tensor& numbers, std::span<const MeasuredRange> ranges);

}  // namespace troupe
