#pragma once
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/dataset.h>

namespace troupe::ps {

/// What a model sees of a stored value x of channel c: (x * scale - mean[c]) / deviation[c]. One mean and
/// deviation for all channels, or one a channel (the first dimension of a [channels, height, width] sample;
/// the last and only one of a flat sample).
struct Normalisation {
  double scale = 1;  ///< 1 / 255 makes bytes 0..1
  std::vector<double> mean{0};
  std::vector<double> deviation{1};
};

/// A data set as its file held it: bytes stay bytes (a quarter of the memory), and are converted while they
/// are gathered.
class MemoryDataset : public nn::Dataset {
 public:
  /// `values` is U8 or F32, [samples, ...sample shape]; `labels` I32[samples]. Both are kept, not copied, and
  /// must not be written any more. `name` is what errors call the set ("train-images-idx3-ubyte.gz").
  /// Different counts, labels outside [0, classes) and a normalisation that does not fit are errors.
  static Result<std::shared_ptr<const MemoryDataset>> make(std::string name, Tensor values, Tensor labels,
                                                           int64_t classes,
                                                           const Normalisation& normalisation);

  int64_t size() const override { return labels_.count(); }
  Shape sample_shape() const override { return sample_shape_; }
  int64_t classes() const override { return classes_; }
  void gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const override;

  /// The same samples seen with another shape of equal count: [1, 28, 28] as [784].
  Result<std::shared_ptr<const MemoryDataset>> reshaped(Shape sample_shape) const;

 private:
  /// `run` neighbouring values share a factor and a shift.
  struct Affine {
    float factor = 1, shift = 0;
  };

  MemoryDataset() = default;

  std::string name_;
  Tensor values_, labels_;
  Shape sample_shape_;
  int64_t classes_ = 0;
  int64_t run_ = 0;
  std::vector<Affine> affine_;  ///< sample count / run entries
};

}  // namespace troupe::ps
