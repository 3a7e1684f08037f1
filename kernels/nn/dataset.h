#pragma once
#include <cstdint>
#include <span>

#include <troupe/kernels/tensor/tensor.h>

namespace troupe::nn {

/// Labelled samples of one shape, addressed by index. Immutable: every function may be called from any
/// number of threads at once. Readers of files are in ps/data.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  /// Of one sample: [784], [channels, height, width], or [positions] for a sequence of tokens.
  virtual Shape sample_shape() const = 0;
  /// F32; I32 for tokens, each in [0, classes()).
  virtual DType sample_dtype() const { return DType::f32; }
  /// Of one sample's labels: a scalar, or [positions] where every position of a sequence has one.
  virtual Shape label_shape() const { return {}; }
  virtual int64_t classes() const = 0;

  /// Copies samples, in the order given, repeated ones again. The caller owns both tensors: `inputs` is of
  /// sample_dtype() with samples.size() x sample_shape().count() elements, `labels` I32 with samples.size() x
  /// label_shape().count() elements, each in [0, classes()). Every index is below size().
  virtual void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const = 0;
};

}  // namespace troupe::nn
