#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/optimizer.h>

/// Layers by rows (LayerSpec::row_width): what a step touches of them is a few rows, named by number.
///
/// Untouched rows are left alone, parameters and optimizer state alike. For SGD without momentum and for AdaGrad, both
/// without weight decay, that is what a gradient of zero does, so that a run by rows is equal to a dense one bit for bit
/// (but for the sign of a zero). Where it is not, an optimizer works by rows only if `lazy_rows` says so: a row's
/// momentum decays, and its weight decay counts, in the steps that touch it alone (as TensorFlow's LazyAdam and PyTorch's
/// SparseAdam have it); bias correction counts the steps of the slice.
namespace troupe::ps {

inline bool by_rows(const LayerSpec& layer) { return layer.row_width > 0; }
/// A parcel by rows holds one slice, whose layer is.
inline bool by_rows(const Layout& layout, const Parcel& parcel) {
  return by_rows(layout.layers[layout.slices[parcel.slices.front()].layer]);
}

/// A layer by rows is one tensor of whole rows, not all-reduced (workers would have to agree on the rows first), and of a
/// model in one stage (a stage's gradients are sums over micro-batches of other rows each).
Status check_by_rows(const std::vector<LayerSpec>& layers, const std::vector<Policy>& policies, uint32_t stages);

/// Values of some rows: `rows` ascending, numbered as in the layer, and `width` values each.
struct RowValues {
  std::span<const int32_t> rows;
  std::span<const float> values;
};

/// Sums of several workers' gradients, of every row that some worker named. Added in the order given, so that it does not
/// depend on arrival; a row that one worker alone named is as it sent it. One part alone is not copied and must outlive
/// this.
class RowSum {
 public:
  RowSum(std::span<const RowValues> parts, int64_t width);
  RowValues get() const { return sum_; }

 private:
  std::vector<int32_t> rows_;
  Tensor values_;
  RowValues sum_;
};

/// Copies of `rows` of a table that begins with row `first`: f32[rows.size() * width].
Tensor gather_rows(const Tensor& table, int32_t first, std::span<const int32_t> rows, int64_t width);
/// Writes those of `part` that are among `rows` over the values of `rows`.
void overlay_rows(const RowValues& part, std::span<const int32_t> rows, std::span<float> values, int64_t width);

/// One optimizer step on the rows of `gradient`, in place. `step` brings scales, counts and `in` = `out`, all of the slice,
/// whose first row is `first`; its gradients and segments are not looked at. Takes time in proportion to the rows touched.
void update_rows(const Optimizer& optimizer, const SliceUpdate& step, const RowValues& gradient, int32_t first,
                 int64_t width, ParamKind kind);

}  // namespace troupe::ps
