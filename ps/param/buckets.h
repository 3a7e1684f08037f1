#pragma once
#include <cstdint>
#include <vector>

#include <troupe/ps/param/layout.h>

namespace troupe::ps {

/// Which layers that are all-reduced go together: bucket by bucket in the order in which their gradients come, so that
/// the first is on its way while the backward pass goes on. A bucket ends before it would pass `bucket_bytes`; a larger
/// layer is one of its own. Pure: equal on all workers of a run, whose buckets meet by their number.
///
///     gradients come  fc3 (10 KB), fc2 (0.5 MB), fc1 (1.6 MB)      bucket_bytes 1 MB:  {fc3, fc2}, {fc1}
///
/// `order`: of the gradients of the layers that are reduced.
std::vector<std::vector<LayerId>> make_buckets(const std::vector<LayerSpec>& layers, const std::vector<size_t>& order,
                                               int64_t bucket_bytes);
/// Those that are under all_reduce.
std::vector<std::vector<LayerId>> make_buckets(const Layout& layout, const std::vector<size_t>& gradient_order,
                                               int64_t bucket_bytes);

}  // namespace troupe::ps
