#include <troupe/ps/param/held_slice.h>

#include <cstring>
#include <utility>

namespace troupe::ps {
namespace {

bool only_ours(const Tensor& tensor) {
  if (!tensor || tensor.buffer().use_count() != 1 || !tensor.buffer()->writable()) return false;
  // The count alone orders nothing: taking and dropping a reference makes what others read before they
  // dropped theirs happen before what is written now.
  BufferPtr(tensor.buffer()).reset();
  return true;
}

// What another process lends is copied: it would be held for as long as nobody pushes. So are values that could not be
// lent, where an update in place would leave them for ever.
SliceState kept(SliceState state) {
  const auto lent = [](const Tensor& t) { return t && !t.buffer()->writable(); };
  for (Tensor& t : state.state)
    if (lent(t)) t = t.clone();
  if (!lent(state.values) && !(state.values && has_large_blocks())) return state;
  Tensor values = Tensor::to_lend(state.values.shape());
  std::memcpy(values.raw(), std::as_const(state.values).raw(), values.bytes());
  state.values = std::move(values);
  return state;
}

}  // namespace

HeldSlice::HeldSlice(const Layout& layout, const Slice& slice, SliceState first, const Optimizer& optimizer,
                     std::shared_ptr<ShardDevice> device)
    : slice_(slice),
      row_width_(layout.layers[slice.layer].row_width),
      segments_(segments_of(layout.layers[slice.layer], slice.begin, slice.end)),
      now_(kept(std::move(first))) {
  const size_t states = optimizer.state_names().size();
  now_.slice = slice.id;
  if (now_.state.empty())
    for (size_t i = 0; i < states; ++i) now_.state.push_back(Tensor::zeros(Shape{slice.count()}));
  TROUPE_CHECK(now_.values && now_.values.count() == slice.count(), "slice ", slice.id, " of ", slice.count(),
               " elements starts with ", now_.values.count());
  TROUPE_CHECK(now_.state.size() == states, optimizer.name(), " keeps ", states, " state vectors, not ",
               now_.state.size());
  if (!device || row_width_ > 0) return;
  device_ = std::make_unique<DeviceSlice>(std::move(device), layout.layers[slice.layer].name, segments_);
  install(std::move(now_));
}

void HeldSlice::install(SliceState state) {
  now_ = kept(std::move(state));
  if (!device_) return;
  device_->install(now_);
  now_.state.clear();
}

void HeldSlice::apply(const Optimizer& optimizer, SliceUpdate step, std::span<const Tensor> gradients, Tensor spare) {
  if (device_) {
    step.updates = now_.updates++;
    now_.values = device_->apply(step, gradients);
    return;
  }
  std::vector<std::span<const float>> spans;
  for (const Tensor& gradient : gradients) spans.push_back(gradient.span<float>());
  step.gradients = spans;
  apply(optimizer, step, std::move(spare));
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
  TROUPE_CHECK(!device_, "slice ", slice_.id, " lives on a device");
  const std::vector<std::span<float>> state = own_state();
  Tensor out;
  if (only_ours(now_.values))
    out = now_.values;
  else if (only_ours(spare) && spare.count() == slice_.count())
    out = std::move(spare);
  else
    out = Tensor::to_lend(Shape{slice_.count()});
  step.in = std::as_const(now_.values).span<float>();
  step.out = out.span<float>();
  step.state = state;
  step.segments = segments_;
  step.updates = now_.updates++;
  optimizer.apply(step);
  now_.values = std::move(out);
}

}  // namespace troupe::ps
