#include <troupe/ps/data/memory_dataset.h>

#include <algorithm>
#include <cmath>

namespace troupe::ps {

namespace {

/// out = in * factor + shift. GCC vectorises the conversion of bytes at -O3 only, and it is most of what
/// gathering costs.
template <class T>
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O3")))
#endif
void convert(const T* __restrict in, float* __restrict out, int64_t n, float factor, float shift) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]) * factor + shift;
}

/// Samples come in random order: the next one's memory is fetched while this one is converted.
void prefetch(const std::byte* row, size_t bytes) {
  for (size_t at = 0; at < std::min<size_t>(bytes, 4096); at += 64) __builtin_prefetch(row + at);
}

Shape without_first(const Shape& shape) {
  return Shape(shape.span().subspan(1));
}

Status check_labels(const std::string& name, const Tensor& labels, int64_t classes) {
  const auto values = labels.span<int32_t>();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= classes)
      return fail(ErrorKind::corrupt, cat(name, ": sample ", i, " has label ", values[i], ", labels of ",
                                          classes, " classes are 0 .. ", classes - 1));
  return {};
}

Status check_normalisation(const std::string& name, const Normalisation& n, const Shape& sample) {
  const auto channels = static_cast<size_t>(sample.dims() > 0 ? sample[0] : 1);
  for (const auto* list : {&n.mean, &n.deviation})
    if (list->size() != 1 && list->size() != channels)
      return fail(ErrorKind::invalid,
                  cat(name, ": ", list == &n.mean ? "data.mean" : "data.std", " has ", list->size(),
                      " values; 1 or ", channels, " (one a channel) fit samples of shape ", sample));
  for (const double deviation : n.deviation)
    if (!(std::abs(deviation) > 0) || !std::isfinite(deviation))
      return fail(ErrorKind::invalid,
                  cat(name, ": data.std holds ", deviation, ", which cannot be divided by"));
  return {};
}

}  // namespace

Result<std::shared_ptr<const MemoryDataset>> MemoryDataset::make(std::string name, Tensor values,
                                                                 Tensor labels, int64_t classes,
                                                                 const Normalisation& normalisation) {
  TROUPE_CHECK(values && labels && values.shape().dims() > 0, "a data set without tensors");
  TROUPE_CHECK(values.dtype() == DType::u8 || values.dtype() == DType::f32, "values are ",
               name_of(values.dtype()));
  if (values.shape()[0] != labels.count())
    return fail(ErrorKind::invalid, cat(name, " holds ", values.shape()[0], " samples, but there are ",
                                        labels.count(), " labels: the two files do not belong together"));
  if (labels.count() == 0) return fail(ErrorKind::invalid, cat(name, " holds no samples"));
  if (classes < 1)
    return fail(ErrorKind::invalid, cat(name, ": ", classes, " classes; at least 1 is needed"));
  const Shape sample = without_first(values.shape());
  TROUPE_TRY(check_labels(name, labels, classes));
  TROUPE_TRY(check_normalisation(name, normalisation, sample));

  std::shared_ptr<MemoryDataset> set(new MemoryDataset);
  const auto& [scale, mean, deviation] = normalisation;
  const size_t runs = std::max(mean.size(), deviation.size());
  for (size_t c = 0; c < runs; ++c) {
    const double m = mean[mean.size() == 1 ? 0 : c], d = deviation[deviation.size() == 1 ? 0 : c];
    set->affine_.push_back({static_cast<float>(scale / d), static_cast<float>(-m / d)});
  }
  set->run_ = sample.count() / static_cast<int64_t>(runs);
  set->name_ = std::move(name);
  set->values_ = std::move(values);
  set->labels_ = std::move(labels);
  set->sample_shape_ = sample;
  set->classes_ = classes;
  return set;
}

void MemoryDataset::gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const {
  const int64_t width = sample_shape_.count();
  const auto count = static_cast<int64_t>(samples.size());
  TROUPE_CHECK(inputs.count() == count * width && labels.count() == count, inputs.shape(), " and ",
               labels.shape(), " for ", count, " samples of ", sample_shape_);
  float* out = inputs.data<float>();
  int32_t* out_label = labels.data<int32_t>();
  const int32_t* label = labels_.data<int32_t>();
  const auto convert_sample = [&](const auto* in) {
    for (size_t c = 0; c < affine_.size(); ++c) {
      const auto at = static_cast<int64_t>(c) * run_;
      convert(in + at, out + at, run_, affine_[c].factor, affine_[c].shift);
    }
  };
  const size_t row_bytes = static_cast<size_t>(width) * size_of(values_.dtype());
  for (size_t k = 0; k < samples.size(); ++k) {
    const uint32_t i = samples[k];
    TROUPE_CHECK(i < size(), "sample ", i, " of ", size());
    if (k + 1 < samples.size()) prefetch(values_.raw() + samples[k + 1] * row_bytes, row_bytes);
    if (values_.dtype() == DType::u8)
      convert_sample(values_.data<uint8_t>() + i * width);
    else
      convert_sample(values_.data<float>() + i * width);
    *out_label++ = label[i];
    out += width;
  }
}

Result<std::shared_ptr<const MemoryDataset>> MemoryDataset::reshaped(Shape sample_shape) const {
  if (sample_shape.count() != sample_shape_.count())
    return fail(ErrorKind::invalid, cat(name_, " has samples of shape ", sample_shape_,
                                        ", which cannot be seen as ", sample_shape));
  std::shared_ptr<MemoryDataset> set(new MemoryDataset(*this));
  set->sample_shape_ = sample_shape;
  return set;
}

}  // namespace troupe::ps
