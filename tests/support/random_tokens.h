#pragma once
#include <memory>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/nn/dataset.h>

namespace troupe::test {

/// Sequences with something to learn: each token is the one before plus one, but for noise.
class RandomTokens final : public nn::Dataset {
 public:
  RandomTokens(int64_t size, int64_t length, int64_t classes) : size_(size), length_(length), classes_(classes) {}
  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {length_}; }
  DType sample_dtype() const override { return DType::i32; }
  Shape label_shape() const override { return {length_}; }
  int64_t classes() const override { return classes_; }

  void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      Random random(samples[i] + 1);
      const auto any = [&] { return static_cast<int32_t>(random.below(static_cast<uint64_t>(classes_))); };
      int32_t token = any();
      for (int64_t t = 0; t < length_; ++t) {
        const int64_t at = static_cast<int64_t>(i) * length_ + t;
        inputs.data<int32_t>()[at] = token;
        token = random.chance(0.1) ? any() : static_cast<int32_t>((token + 1) % classes_);
        labels.data<int32_t>()[at] = token;
      }
    }
  }

 private:
  int64_t size_, length_, classes_;
};

}  // namespace troupe::test
