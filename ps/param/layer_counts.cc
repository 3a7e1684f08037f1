#include <troupe/ps/param/layer_counts.h>

#include <algorithm>

namespace troupe::ps {
namespace {

void count_in(std::vector<int64_t>& histogram, int64_t value) {
  ++histogram[std::min(static_cast<size_t>(std::max<int64_t>(value, 0)), LayerCounts::kBins - 1)];
}

}  // namespace

LayerCounts::LayerCounts(const std::vector<LayerCounters>& before) {
  for (const LayerCounters& counters : before) layers_[counters.layer] = counters;
}

LayerCounters& LayerCounts::at(LayerId layer) {
  LayerCounters& counters = layers_[layer];
  counters.layer = layer;
  counters.lag_histogram.resize(kBins);
  counters.delay_histogram.resize(kBins);
  return counters;
}

// count(counters of the layer, bytes of its slices in the parcel). Slices of a layer lie side by side.
template <class Count>
void LayerCounts::for_each_layer(const Layout& layout, ParcelId parcel, const Count& count) {
  const auto& slices = layout.parcels[parcel].slices;
  for (size_t i = 0; i < slices.size();) {
    const LayerId layer = layout.slices[slices[i]].layer;
    int64_t bytes = 0;
    for (; i < slices.size() && layout.slices[slices[i]].layer == layer; ++i)
      bytes += layout.slices[slices[i]].count() * static_cast<int64_t>(sizeof(float));
    count(at(layer), bytes);
  }
}

void LayerCounts::pushed(const Layout& layout, const Push& push, std::optional<int64_t> delay) {
  for_each_layer(layout, push.parcel, [&](LayerCounters& c, int64_t bytes) {
    ++c.pushes;
    if (push.rows)
      c.pushed_bytes += static_cast<int64_t>(push.rows.bytes() + push.gradients.front().bytes());
    else if (!push.gradients.empty())
      c.pushed_bytes += bytes;
    if (delay) count_in(c.delay_histogram, *delay);
  });
}

void LayerCounts::updated(const Layout& layout, ParcelId parcel) {
  for_each_layer(layout, parcel, [](LayerCounters& c, int64_t) { ++c.updates; });
}

void LayerCounts::pulled(const Layout& layout, const Pull& pull, const PullReply& reply) {
  for_each_layer(layout, pull.parcel, [&](LayerCounters& c, int64_t bytes) {
    c.pulled_bytes += pull.rows ? static_cast<int64_t>(reply.values.front().bytes()) : bytes;
  });
}

void LayerCounts::read(const Layout& layout, ParcelId parcel, int64_t lag) {
  for_each_layer(layout, parcel, [&](LayerCounters& c, int64_t) { count_in(c.lag_histogram, lag); });
}

std::vector<LayerCounters> LayerCounts::all() const {
  std::vector<LayerCounters> counters;
  for (const auto& [layer, c] : layers_) counters.push_back(c);
  return counters;
}

}  // namespace troupe::ps
