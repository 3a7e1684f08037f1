#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

Shape batch_shape(int64_t samples, const Shape& sample) {
  std::array<int64_t, Shape::kMaxDims> dims{};
  TROUPE_CHECK(sample.dims() < Shape::kMaxDims, "a sample of shape ", sample);
  dims[0] = samples;
  for (int i = 0; i < sample.dims(); ++i) dims[static_cast<size_t>(i) + 1] = sample[i];
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(sample.dims()) + 1));
}

}  // namespace troupe::nn
