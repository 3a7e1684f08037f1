#include <algorithm>
#include <utility>

#include <troupe/ps/param/holdings.h>

namespace troupe::ps {
namespace {

// The parameters that this step began with, of a parcel by rows.
Tensor before_step(const HeldSlice& slice, const HeldParcel::Before& before) {
  Tensor values = slice.values().clone();
  const auto rows = before.rows.span<int32_t>();
  const int64_t width = slice.row_width();
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(before.values.data<float>() + static_cast<int64_t>(i) * width, width,
                values.data<float>() + (rows[i] - slice.first_row()) * width);
  return values;
}

ShardImage::Parcel image_of(ParcelId id, const HeldParcel& p) {
  ShardImage::Parcel image{id, p.clock.steps(), p.version, p.updates, {}, {}, p.previous};
  for (const auto& read : p.reads) image.reads.push_back({read.step, read.updates});
  for (const auto& [worker, c] : p.pending)
    image.pending.push_back({worker, c.samples, c.schedule_step, c.finite, c.gradients, c.rows});
  return image;
}

HeldParcel parcel_of(const ShardImage::Parcel& image) {
  HeldParcel p;
  p.clock = VectorClock(image.clock);
  p.version = image.version;
  p.updates = image.updates;
  p.previous = image.previous;
  for (const auto& read : image.reads) p.reads.push_back({read.step, read.updates});
  for (const auto& part : image.pending)
    p.pending[part.worker] = {part.samples, part.schedule_step, part.gradients, part.finite, part.rows};
  return p;
}

}  // namespace

void Holdings::put_into(ShardImage& image) const {
  for (const WorkerSlot& slot : workers)
    image.workers.push_back(
        {slot.window.high_water(), {slot.window.above().begin(), slot.window.above().end()}, slot.install_round});
  for (const auto& [id, p] : parcels) {
    ShardImage::Parcel& parcel = image.parcels.emplace_back(image_of(id, p));
    if (p.before) parcel.previous = {before_step(slices.at(layout->parcels[id].slices.front()), *p.before)};
  }
  image.slices = state();
}

void Holdings::go_on_from(const ShardImage& image, const ShardOptions& options) {
  *this = {};
  layout = image.membership.layout;
  const std::vector<Incarnation>& seated = image.membership.workers;
  for (size_t w = 0; w < seated.size(); ++w) {
    const ShardImage::Worker& from = image.workers[w];
    workers.push_back({seated[w], {from.high_water, {from.above.begin(), from.above.end()}}, from.install_round});
  }
  for (const SliceState& s : image.slices)
    slices.emplace(s.slice, HeldSlice(*layout, layout->slices[s.slice], s, *options.optimizer, options.device));
  for (const ShardImage::Parcel& from : image.parcels) {
    HeldParcel& p = parcels[from.id] = parcel_of(from);
    const Parcel& parcel = layout->parcels[from.id];
    for (WorkerId w = 0; w < seated.size(); ++w)
      p.clock.set_present(w, seated[w] != 0 && layout->contributes(w, parcel));
    const auto& ids = parcel.slices;
    for (size_t i = 0; i < ids.size(); ++i) places[ids[i]] = {from.id, i};
  }
}

}  // namespace troupe::ps
