#include <troupe/ps/param/buckets.h>

namespace troupe::ps {

std::vector<std::vector<LayerId>> make_buckets(const Layout& layout, const std::vector<size_t>& gradient_order,
                                               int64_t bucket_bytes) {
  constexpr auto kElementBytes = static_cast<int64_t>(sizeof(float));
  std::vector<std::vector<LayerId>> buckets;
  int64_t filled = 0;
  for (const size_t layer : gradient_order) {
    if (layout.policies[layer].mode != Mode::all_reduce) continue;
    const int64_t bytes = layout.layers[layer].count * kElementBytes;
    if (buckets.empty() || filled + bytes > bucket_bytes) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(static_cast<LayerId>(layer));
    filled += bytes;
  }
  return buckets;
}

}  // namespace troupe::ps
