#pragma once
#include <memory>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/dataset.h>

namespace troupe::ps {

/// A text as a row of tokens, cut into samples of `context` tokens that do not overlap; the labels of a sample are the
/// tokens that follow each of its own, the last one the first of the next sample. What fills no whole sample at the end
/// is left out, so that an epoch is one pass over the text.
class TokenDataset final : public nn::Dataset {
 public:
  /// `tokens` I32[n] is kept, not copied, and must not be written any more. `name` is what errors call it. A text that
  /// is too short for one sample, and a token outside [0, vocabulary), are errors.
  static Result<std::shared_ptr<const TokenDataset>> make(std::string name, Tensor tokens, int64_t context,
                                                          int64_t vocabulary);

  int64_t size() const override { return (tokens_.count() - 1) / context_; }
  Shape sample_shape() const override { return {context_}; }
  DType sample_dtype() const override { return DType::i32; }
  Shape label_shape() const override { return {context_}; }
  int64_t classes() const override { return vocabulary_; }
  void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const override;

 private:
  TokenDataset(Tensor tokens, int64_t context, int64_t vocabulary)
      : tokens_(std::move(tokens)), context_(context), vocabulary_(vocabulary) {}

  Tensor tokens_;
  int64_t context_, vocabulary_;
};

}  // namespace troupe::ps
