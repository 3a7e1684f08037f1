#include <troupe/kernels/tensor/shape.h>

#include <troupe/kernels/base/check.h>

namespace troupe {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  TROUPE_CHECK(dims.size() <= kMaxDims, dims.size(), " dimensions");
  for (int64_t size : dims) {
    TROUPE_CHECK(size >= 0, "dimension ", dims_, " is ", size);
    size_[static_cast<size_t>(dims_++)] = size;
  }
}

int64_t Shape::count() const {
  int64_t n = 1;
  for (int64_t size : span()) n *= size;
  return n;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.dims(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

}  // namespace troupe
