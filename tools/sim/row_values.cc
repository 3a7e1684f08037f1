#include "row_values.h"

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/random.h>

namespace troupe::sim {

Tensor step_rows(uint64_t work_seed, ps::LayerId layer, const LayerSpec& spec) {
  Random random(derive_seed(work_seed, "rows", layer));
  const auto count = static_cast<int32_t>(spec.count / spec.row_width);
  const auto first = static_cast<int32_t>(random.below(static_cast<uint64_t>(count)));
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < count; ++row)
    if (row == first || random.chance(0.3)) rows.push_back(row);
  return Tensor::from<int32_t>(rows, {static_cast<int64_t>(rows.size())});
}

Tensor whole_of(const Tensor& rows, const Tensor& values, int64_t begin, int64_t end, int64_t width, float rest) {
  Tensor whole = Tensor::empty({end - begin});
  std::ranges::fill(whole.span<float>(), rest);
  const float* from = values.data<float>();
  for (const int32_t row : rows.span<int32_t>()) {
    if (row * width >= begin && row * width < end) std::copy_n(from, width, whole.data<float>() + (row * width - begin));
    from += width;
  }
  return whole;
}

ps::Push whole_of(ps::Push push, const ps::Layout& layout) {
  const ps::Slice& s = layout.slices[layout.parcels[push.parcel].slices.front()];
  push.gradients = {whole_of(push.rows, push.gradients.front(), s.begin, s.end, layout.layers[s.layer].row_width, 0)};
  push.rows = {};
  return push;
}

ps::PullReply whole_of(ps::PullReply reply, const Tensor& rows, const ps::Layout& layout) {
  const ps::Slice& s = layout.slices[layout.parcels[reply.parcel].slices.front()];
  reply.values = {whole_of(rows, reply.values.front(), s.begin, s.end, layout.layers[s.layer].row_width, kUnread)};
  return reply;
}

}  // namespace troupe::sim
