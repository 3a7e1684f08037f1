#include <troupe/ps/control/bucket_filler.h>

#include <algorithm>

namespace troupe::ps {

bool BucketFiller::take(LayerId layer, Tensor& gradient) {
  for (Bucket& bucket : buckets_)
    for (Reduce& task : bucket)
      if (task.layer == layer) {
        task.gradient = std::move(gradient);
        return true;
      }
  return false;
}

Bucket BucketFiller::next() {
  if (next_ == buckets_.size()) return {};
  const bool full = std::ranges::all_of(buckets_[next_], [](const Reduce& task) { return bool(task.gradient); });
  return full ? std::exchange(buckets_[next_++], {}) : Bucket{};
}

}  // namespace troupe::ps
