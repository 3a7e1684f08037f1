#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/data/memory_dataset.h>
#include <troupe/ps/data/samples.h>

namespace troupe::fuzz {

/// What a reader hands over becomes a data set of which every sample can be gathered.
inline void promise_usable(const ps::Samples& samples) {
  if (samples.values.count() > 1 << 20) return;  // the target's own copy would take four times the memory
  const auto labels = samples.labels.span<int32_t>();
  const int64_t classes = labels.empty() ? 1 : int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
  const auto set = ps::MemoryDataset::make(samples.name, samples.values, samples.labels, classes, {});
  if (!set) return;
  const int64_t count = (*set)->size(), width = (*set)->sample_shape().count();
  TROUPE_CHECK(count == samples.labels.count() && count * width == samples.values.count());
  std::vector<uint32_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0u);
  Tensor inputs = Tensor::empty({count, width}), out = Tensor::empty({count}, DType::i32);
  (*set)->gather(all, inputs, out);
  TROUPE_CHECK(std::equal(labels.begin(), labels.end(), out.span<int32_t>().begin()));
}

}  // namespace troupe::fuzz
