#pragma once
#include <utility>
#include <vector>

#include <troupe/ps/control/worker_tasks.h>

namespace troupe::ps {

/// Gradients of a step on their way into their buckets, which come out full and in order, whatever order the gradients
/// come in: equal on all workers.
class BucketFiller {
 public:
  BucketFiller() = default;
  /// Without gradients.
  explicit BucketFiller(std::vector<Bucket> buckets) : buckets_(std::move(buckets)) {}

  /// Takes the gradient of a layer that is in a bucket, and leaves others alone.
  bool take(LayerId layer, Tensor& gradient);
  /// The next bucket, once it is full; else empty.
  Bucket next();

 private:
  std::vector<Bucket> buckets_;
  size_t next_ = 0;
};

}  // namespace troupe::ps
