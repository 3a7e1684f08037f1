#pragma once
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/nn/gradient_measure.h>
#include <troupe/ps/param/held_parcel.h>
#include <troupe/ps/param/held_slice.h>

namespace troupe::ps {

/// One worker's gradient of one slice.
struct GradientPart {
  WorkerId worker = 0;
  std::span<const float> values;
};

/// What the group's decision needs to know of a slice's gradient.
struct SliceNorm {
  double sum_of_squares = 0;  ///< without statistics, which are no gradients
  bool finite = true;         ///< with them
  WorkerId culprit = 0;       ///< where not finite: the first whose part is not, else the first
};

/// Of the parts' sum (added in this order, as the optimizer does) times `scale`; squares are added in double
/// precision, ascending. Reads each part once, and once more where something is not finite.
SliceNorm measure(const std::vector<GradientPart>& parts, const std::vector<Segment>& segments, double scale);
/// The same where a device has summed and measured the parts (which lie in host memory, too).
SliceNorm norm_of(const GradientMeasure& measure, const std::vector<GradientPart>& parts, double scale);
/// The same of gradients of rows, each with its worker.
SliceNorm measure_rows(const RowParts& parts, int64_t width, ParamKind kind, double scale);

}  // namespace troupe::ps
