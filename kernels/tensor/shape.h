#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace troupe {

/// The dimensions of a row-major tensor, at most six; no dimension is a scalar. A value without heap memory.
class Shape {
 public:
  static constexpr int kMaxDims = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int dims() const { return dims_; }
  /// Size of dimension `i`; negative counts from the back, so [-1] is the fastest-running one.
  int64_t operator[](int i) const { return size_[static_cast<size_t>(i < 0 ? i + dims_ : i)]; }
  /// Number of elements: the product of the dimensions (1 for a scalar).
  int64_t count() const;
  std::span<const int64_t> span() const { return {size_.data(), static_cast<size_t>(dims_)}; }

  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxDims> size_{};
  int dims_ = 0;
};

/// "[64, 1, 28, 28]".
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace troupe
