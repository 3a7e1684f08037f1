#include <troupe/ps/param/rows.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

// What an update works on stays in the first-level cache: parameters, gradient and state of so many elements.
constexpr int64_t kBlockElements = 1024;
// Rows are anywhere in memory: these many ahead are on their way while a block is worked on.
constexpr size_t kAheadRows = 16;
constexpr int64_t kLineElements = 16;  // 64 bytes

size_t bytes_of(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

void fetch(const float* values, int64_t n) {
  for (int64_t i = 0; i < n; i += kLineElements) __builtin_prefetch(values + i);
}

void add(const float* from, int64_t n, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

Status check_by_rows(const std::vector<LayerSpec>& layers, const std::vector<Policy>& policies, uint32_t stages) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& layer = layers[i];
    if (layer.row_width == 0) continue;
    const int64_t width = layer.row_width;
    if (width < 0 || layer.params.size() != 1 || layer.count % width != 0 ||
        layer.count / width > std::numeric_limits<int32_t>::max())
      return fail(ErrorKind::invalid, cat("layer ", layer.name, " of ", layer.count, " elements in ",
                                          layer.params.size(), " tensors is no table of rows of ", width));
    if (policies[i].mode == Mode::all_reduce)
      return fail(ErrorKind::invalid, cat("layer ", layer.name, " is by rows and all_reduce: which rows a step touches "
                                          "differs between workers; make it sync, ssp or async"));
    if (stages > 1)
      return fail(ErrorKind::invalid, cat("layer ", layer.name, " is by rows, and the model is cut into ", stages,
                                          " stages: use one stage, or a dense layer"));
  }
  return {};
}

// A merge of all parts, each of which is ascending.
RowSum::RowSum(std::span<const RowValues> parts, int64_t width) {
  if (parts.size() == 1) {
    sum_ = parts[0];
    return;
  }
  for (const RowValues& part : parts) {
    const std::vector<int32_t> before = std::exchange(rows_, {});
    std::ranges::set_union(before, part.rows, std::back_inserter(rows_));
  }
  values_ = Tensor::empty({static_cast<int64_t>(rows_.size()) * width});
  std::vector<bool> begun(rows_.size(), false);
  for (const RowValues& part : parts) {
    size_t at = 0;
    const float* from = part.values.data();
    for (const int32_t row : part.rows) {
      while (rows_[at] < row) ++at;
      float* to = values_.data<float>() + static_cast<int64_t>(at) * width;
      if (begun[at]) add(from, width, to);
      else std::memcpy(to, from, bytes_of(width));
      begun[at] = true;
      from += width;
    }
  }
  sum_ = {rows_, std::as_const(values_).span<float>()};
}

Tensor gather_rows(const Tensor& table, int32_t first, std::span<const int32_t> rows, int64_t width) {
  Tensor values = Tensor::to_lend({static_cast<int64_t>(rows.size()) * width});
  const float* from = table.data<float>();
  float* to = values.data<float>();
  for (size_t i = 0; i < rows.size(); ++i, to += width) {
    if (i + kAheadRows < rows.size()) fetch(from + (rows[i + kAheadRows] - first) * width, width);
    std::memcpy(to, from + (rows[i] - first) * width, bytes_of(width));
  }
  return values;
}

void overlay_rows(const RowValues& part, std::span<const int32_t> rows, std::span<float> values, int64_t width) {
  size_t at = 0;
  for (size_t i = 0; i < part.rows.size(); ++i) {
    while (at < rows.size() && rows[at] < part.rows[i]) ++at;
    if (at == rows.size()) return;
    if (rows[at] != part.rows[i]) continue;
    std::memcpy(values.data() + static_cast<int64_t>(at) * width, part.values.data() + static_cast<int64_t>(i) * width,
                bytes_of(width));
  }
}

// Block by block the rows are brought together, updated by the optimizer as if they were a slice of their own, and put
// back, so that optimizers need not know of rows.
void update_rows(const Optimizer& optimizer, const SliceUpdate& step, const RowValues& gradient, int32_t first,
                 int64_t width, ParamKind kind) {
  const size_t count = gradient.rows.size();
  const auto block = static_cast<size_t>(std::max<int64_t>(1, kBlockElements / width));
  const size_t vectors = 1 + step.state.size();
  std::vector<float> memory(vectors * std::min(block, count) * static_cast<size_t>(width));
  const auto place = [&](size_t vector, size_t row) {
    float* whole = vector == 0 ? step.out.data() : step.state[vector - 1].data();
    return whole + (gradient.rows[row] - first) * width;
  };
  SliceUpdate part = step;
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t rows = std::min(block, count - begin);
    const auto elements = static_cast<int64_t>(rows) * width;
    std::vector<std::span<float>> state;
    for (size_t v = 0; v < vectors; ++v) {
      float* together = memory.data() + v * rows * static_cast<size_t>(width);
      for (size_t i = 0; i < rows; ++i) {
        if (begin + i + kAheadRows < count) fetch(place(v, begin + i + kAheadRows), width);
        std::memcpy(together + static_cast<int64_t>(i) * width, place(v, begin + i), bytes_of(width));
      }
      const std::span<float> values(together, static_cast<size_t>(elements));
      if (v == 0)
        part.in = part.out = values;
      else
        state.push_back(values);
    }
    const std::span<const float> values =
        gradient.values.subspan(begin * static_cast<size_t>(width), static_cast<size_t>(elements));
    const Segment segment{0, elements, kind};
    part.gradients = {&values, 1};
    part.state = state;
    part.segments = {&segment, 1};
    optimizer.apply(part);
    for (size_t v = 0; v < vectors; ++v)
      for (size_t i = 0; i < rows; ++i)
        std::memcpy(place(v, begin + i), memory.data() + (v * rows + i) * static_cast<size_t>(width), bytes_of(width));
  }
}

}  // namespace troupe::ps
