#include <troupe/actors/packed_bucket.h>

#include <new>
#include <stdexcept>

namespace troupe {

PackedBucket pack(Stream& stream, const ps::Bucket& bucket, const std::vector<LayerSpec>& layers, int64_t more) {
  int64_t total = more;
  for (const ps::Reduce& task : bucket) total += packed_count(task.gradient.count());
  PackedBucket packed;
  try {
    packed.all = stream.empty({total});
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(cat("no memory for a bucket of ", total, " gradients from layer ",
                                 layers[bucket.front().layer].name, " on: ", e.what()));
  }
  int64_t at = 0;
  for (const ps::Reduce& task : bucket) {
    packed.gradients.push_back(packed.all.view(at, {task.gradient.count()}));
    stream.copy(task.gradient, packed.gradients.back());
    at += packed_count(task.gradient.count());
  }
  if (more > 0) packed.more = packed.all.view(at, {more});
  return packed;
}

}  // namespace troupe
