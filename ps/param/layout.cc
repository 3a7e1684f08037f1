#include <troupe/ps/param/layout.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/param/rows.h>

namespace troupe::ps {
namespace {

constexpr int64_t kElementBytes = 4;
constexpr int64_t kAlignElements = 16;
// Balance below which slices are made smaller than `slice_bytes`.
constexpr double kGoodBalance = 1.1;

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Equal pieces of at most `limit` elements, the last one shorter. A layer by rows that is larger is cut once for each
// server: a step moves few of its rows, which smaller pieces would only spread over more messages.
std::vector<Slice> cut(const std::vector<LayerSpec>& layers, int64_t limit, uint32_t servers) {
  std::vector<Slice> slices;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const int64_t count = layers[layer].count;
    const int64_t pieces = (count + limit - 1) / limit;
    int64_t piece = pieces ? std::min(limit, round_up((count + pieces - 1) / pieces, kAlignElements)) : 0;
    if (const int64_t width = layers[layer].row_width; width > 0)
      piece = count <= limit ? count : round_up((count + servers - 1) / servers, std::lcm(kAlignElements, width));
    for (int64_t begin = 0; begin < count; begin += piece)
      slices.push_back(
          {static_cast<SliceId>(slices.size()), static_cast<LayerId>(layer), begin, std::min(begin + piece, count), 0});
  }
  return slices;
}

// Longest processing time first (Graham 1969): at most 4/3 of the best possible maximum.
void place(std::vector<Slice>& slices, uint32_t servers) {
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return slices[a].count() > slices[b].count(); });
  std::vector<int64_t> load(servers, 0);
  for (size_t i : order) {
    const auto least = std::ranges::min_element(load);
    slices[i].server = static_cast<ServerId>(least - load.begin());
    *least += slices[i].count();
  }
}

std::vector<Parcel> fuse(const Layout& layout, int64_t fuse_bytes) {
  using Kind = std::tuple<ServerId, Mode, int64_t, uint32_t>;
  struct Open {
    ParcelId parcel = 0;
    int64_t bytes = 0;
  };
  std::map<Kind, Open> open;
  std::vector<Parcel> parcels;
  for (const Slice& slice : layout.slices) {
    const Policy& policy = layout.policies[slice.layer];
    const int64_t bytes = slice.count() * kElementBytes;
    const Kind kind{slice.server, policy.mode, policy.staleness, layout.stage_of_layer(slice.layer)};
    const bool alone = by_rows(layout.layers[slice.layer]);
    const auto found = alone ? open.end() : open.find(kind);
    if (found != open.end() && bytes < fuse_bytes && found->second.bytes + bytes <= fuse_bytes) {
      parcels[found->second.parcel].slices.push_back(slice.id);
      found->second.bytes += bytes;
      continue;
    }
    const auto id = static_cast<ParcelId>(parcels.size());
    parcels.push_back({id, slice.server, policy, {slice.id}, slice.layer});
    if (!alone && bytes < fuse_bytes) open[kind] = {id, bytes};
  }
  return parcels;
}

}  // namespace

bool Layout::lockstep() const {
  return std::ranges::any_of(policies, [](const Policy& p) { return p.lockstep(); });
}

bool Layout::any(Mode mode) const {
  return std::ranges::any_of(policies, [&](const Policy& p) { return p.mode == mode; });
}

Layout make_layout(std::vector<LayerSpec> layers, std::vector<Policy> policies, const LayoutOptions& options) {
  TROUPE_CHECK(layers.size() == policies.size(), layers.size(), " layers, ", policies.size(), " policies");
  TROUPE_CHECK(options.servers > 0 && options.slice_bytes > 0 && options.fuse_bytes >= 0, "servers ", options.servers,
               ", slice_bytes ", options.slice_bytes, ", fuse_bytes ", options.fuse_bytes);
  Layout layout;
  layout.layers = std::move(layers);
  layout.policies = std::move(policies);
  layout.servers = options.servers;
  TROUPE_CHECK(options.stage_of.empty() ? options.stages == 1 : options.stage_of.size() == layout.layers.size(),
               options.stage_of.size(), " layers have one of ", options.stages, " stages, of ", layout.layers.size());
  layout.stages = options.stages;
  layout.stage_of = options.stage_of;

  const int64_t slice = std::max(kAlignElements, options.slice_bytes / kElementBytes / kAlignElements * kAlignElements);
  const int64_t smallest = std::max(kAlignElements, options.fuse_bytes / kElementBytes);
  const bool whole_layers = options.whole_layers || (options.servers == 1 && !options.spread);
  int64_t limit = slice;
  if (whole_layers)
    for (const auto& layer : layout.layers) limit = std::max(limit, round_up(layer.count, kAlignElements));
  for (;; limit = limit / 2 / kAlignElements * kAlignElements) {
    layout.slices = cut(layout.layers, limit, layout.servers);
    place(layout.slices, layout.servers);
    if (whole_layers || limit / 2 < smallest || imbalance(layout) <= kGoodBalance) break;
  }
  layout.parcels = fuse(layout, options.fuse_bytes);
  return layout;
}

std::vector<int64_t> bytes_by_server(const Layout& layout) {
  std::vector<int64_t> bytes(layout.servers, 0);
  for (const Slice& slice : layout.slices) bytes[slice.server] += slice.count() * kElementBytes;
  return bytes;
}

double imbalance(const Layout& layout) {
  const auto bytes = bytes_by_server(layout);
  const auto total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  if (total == 0) return 1;
  return static_cast<double>(std::ranges::max(bytes)) * static_cast<double>(bytes.size()) / static_cast<double>(total);
}

}  // namespace troupe::ps
