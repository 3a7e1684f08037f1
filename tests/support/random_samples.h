#pragma once
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/nn/dataset.h>

namespace troupe::test {

/// Samples of normal noise, the same whenever they are asked for; labels go round.
class RandomSamples final : public nn::Dataset {
 public:
  RandomSamples(Shape shape, int64_t classes, int64_t size = 64) : shape_(shape), classes_(classes), size_(size) {}
  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const override {
    const size_t width = static_cast<size_t>(shape_.count());
    for (size_t i = 0; i < samples.size(); ++i) {
      Random random(samples[i] + 1);
      for (float& value : inputs.span<float>().subspan(i * width, width)) value = static_cast<float>(random.normal());
      labels.data<int32_t>()[i] = static_cast<int32_t>(samples[i] % static_cast<uint32_t>(classes_));
    }
  }

 private:
  Shape shape_;
  int64_t classes_, size_;
};

}  // namespace troupe::test
