#include <troupe/ps/param/held_slice.h>

#include <algorithm>
#include <utility>

namespace troupe::ps {
namespace {

bool only_ours(const Tensor& tensor) {
  if (!tensor || tensor.buffer().use_count() != 1) return false;
  // The count alone orders nothing: taking and dropping a reference makes what others read before they
  // dropped theirs happen before what is written now.
  BufferPtr(tensor.buffer()).reset();
  return true;
}

std::vector<Segment> segments_of(const LayerSpec& layer, const Slice& slice) {
  std::vector<Segment> segments;
  for (const ParamSpec& param : layer.params) {
    const int64_t begin = std::max(param.offset, slice.begin);
    const int64_t end = std::min(param.offset + param.shape.count(), slice.end);
    if (begin < end) segments.push_back({begin - slice.begin, end - slice.begin, param.kind});
  }
  return segments;
}

}  // namespace

HeldSlice::HeldSlice(const Layout& layout, const Slice& slice, SliceState first, const Optimizer& optimizer)
    : slice_(slice),
      row_width_(layout.layers[slice.layer].row_width),
      segments_(segments_of(layout.layers[slice.layer], slice)),
      now_(std::move(first)) {
  const size_t states = optimizer.state_names().size();
  now_.slice = slice.id;
  if (now_.state.empty())
    for (size_t i = 0; i < states; ++i) now_.state.push_back(Tensor::zeros(Shape{slice.count()}));
  TROUPE_CHECK(now_.values && now_.values.count() == slice.count(), "slice ", slice.id, " of ", slice.count(),
               " elements starts with ", now_.values.count());
  TROUPE_CHECK(now_.state.size() == states, optimizer.name(), " keeps ", states, " state vectors, not ",
               now_.state.size());
}

std::vector<std::span<float>> HeldSlice::own_state() {
  std::vector<std::span<float>> state;
  for (Tensor& t : now_.state) {
    if (!only_ours(t)) t = t.clone();
    state.push_back(t.span<float>());
  }
  return state;
}

void HeldSlice::apply_rows(const Optimizer& optimizer, SliceUpdate step, const RowValues& gradient) {
  const std::vector<std::span<float>> state = own_state();
  if (!only_ours(now_.values)) now_.values = now_.values.clone();
  step.out = now_.values.span<float>();
  step.in = step.out;
  step.state = state;
  step.updates = now_.updates++;
  update_rows(optimizer, step, gradient, first_row(), row_width_, segments_.front().kind);
}

void HeldSlice::apply(const Optimizer& optimizer, SliceUpdate step, Tensor spare) {
  const std::vector<std::span<float>> state = own_state();
  Tensor out;
  if (only_ours(now_.values))
    out = now_.values;
  else if (only_ours(spare) && spare.count() == slice_.count())
    out = std::move(spare);
  else
    out = Tensor::empty(Shape{slice_.count()});
  step.in = std::as_const(now_.values).span<float>();
  step.out = out.span<float>();
  step.state = state;
  step.segments = segments_;
  step.updates = now_.updates++;
  optimizer.apply(step);
  now_.values = std::move(out);
}

}  // namespace troupe::ps
