#include <troupe/kernels/nn/layer.h>

#include <algorithm>

namespace troupe::nn {

int64_t Layer::work(const Shape& sample) const {
  const Shape output = output_shape(sample);
  int64_t parameters = 0;
  for (const ParamSpec& param : params()) parameters += param.shape.count();
  // Images are [channels, height, width]; all others have their features last.
  const int64_t features = output.dims() == 3 ? output[0] : output.dims() > 0 ? output[-1] : 1;
  return parameters * (output.count() / std::max<int64_t>(features, 1)) + output.count();
}

Shape batch_shape(int64_t samples, const Shape& sample) {
  std::array<int64_t, Shape::kMaxDims> dims{};
  TROUPE_CHECK(sample.dims() < Shape::kMaxDims, "a sample of shape ", sample);
  dims[0] = samples;
  for (int i = 0; i < sample.dims(); ++i) dims[static_cast<size_t>(i) + 1] = sample[i];
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(sample.dims()) + 1));
}

Shape with_last(const Shape& shape, int64_t last) {
  TROUPE_CHECK(shape.dims() > 0, "a scalar has no last dimension");
  std::array<int64_t, Shape::kMaxDims> dims{};
  std::ranges::copy(shape.span(), dims.begin());
  dims[static_cast<size_t>(shape.dims()) - 1] = last;
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape.dims())));
}

Tensor as_rows(const Tensor& x) {
  const int64_t width = x.shape()[-1];
  return x.reshaped({width > 0 ? x.count() / width : 0, width});
}

}  // namespace troupe::nn
