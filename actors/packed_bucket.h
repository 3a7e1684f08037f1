#pragma once
#include <vector>

#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/ps/control/worker_tasks.h>

namespace troupe {

/// A bucket's gradients side by side in one piece of a device's memory, so that one call reduces them all.
struct PackedBucket {
  Tensor all;                     ///< f32; what lies between the gradients is undefined
  std::vector<Tensor> gradients;  ///< views of it, one a task, which begin on cache lines
  Tensor more;                    ///< a view of `more` elements behind them, undefined; none asked for: empty
};

/// Elements that `count` take up there, so that kernels read and write views in wide pieces.
inline int64_t packed_count(int64_t count) {
  constexpr int64_t kLineElements = 16;
  return (count + kLineElements - 1) / kLineElements * kLineElements;
}

/// Copies them on `stream`, from the device or from host memory; the bucket is kept until that has run. Without memory
/// a std::runtime_error that names the first layer.
PackedBucket pack(Stream& stream, const ps::Bucket& bucket, const std::vector<LayerSpec>& layers);

/// The same into `memory`, which has room for the packed counts and `more`.
PackedBucket pack_into(const Tensor& memory, Stream& stream, const ps::Bucket& bucket, int64_t more);

}  // namespace troupe
