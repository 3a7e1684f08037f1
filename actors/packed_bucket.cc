#include <troupe/actors/packed_bucket.h>

#include <new>
#include <stdexcept>

namespace troupe {

namespace {

int64_t packed_count_of(const ps::Bucket& bucket) {
  int64_t total = 0;
  for (const ps::Reduce& task : bucket) total += packed_count(task.gradient.count());
  return total;
}

}  // namespace

PackedBucket pack(Stream& stream, const ps::Bucket& bucket, const std::vector<LayerSpec>& layers) {
  const int64_t total = packed_count_of(bucket);
  Tensor memory;
  try {
    memory = stream.empty({total});
  } catch (const std::bad_alloc& e) {
    throw std::runtime_error(cat("no memory for a bucket of ", total, " gradients from layer ",
                                 layers[bucket.front().layer].name, " on: ", e.what()));
  }
  return pack_into(memory, stream, bucket, 0);
}

PackedBucket pack_into(const Tensor& memory, Stream& stream, const ps::Bucket& bucket, int64_t more) {
  PackedBucket packed;
  packed.all = memory.view(0, {packed_count_of(bucket) + more});
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
