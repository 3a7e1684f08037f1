#include <troupe/ps/param/buckets.h>

#include <algorithm>
#include <iterator>

namespace troupe::ps {

std::vector<std::vector<LayerId>> make_buckets(const std::vector<LayerSpec>& layers, const std::vector<size_t>& order,
                                               int64_t bucket_bytes) {
  constexpr auto kElementBytes = static_cast<int64_t>(sizeof(float));
  std::vector<std::vector<LayerId>> buckets;
  int64_t filled = 0;
  for (const size_t layer : order) {
    const int64_t bytes = layers[layer].count * kElementBytes;
    if (buckets.empty() || filled + bytes > bucket_bytes) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(static_cast<LayerId>(layer));
    filled += bytes;
  }
  return buckets;
}

std::vector<std::vector<LayerId>> make_buckets(const Layout& layout, const std::vector<size_t>& gradient_order,
                                               int64_t bucket_bytes) {
  std::vector<size_t> reduced;
  std::ranges::copy_if(gradient_order, std::back_inserter(reduced),
                       [&](size_t layer) { return layout.policies[layer].mode == Mode::all_reduce; });
  return make_buckets(layout.layers, reduced, bucket_bytes);
}

}  // namespace troupe::ps
