#pragma once
#include <cstring>
#include <span>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/tensor/buffer.h>
#include <troupe/kernels/tensor/dtype.h>
#include <troupe/kernels/tensor/shape.h>

namespace troupe {

/// A row-major view of a buffer that it keeps alive: a value, cheap to copy, two words of reference count.
/// Copies share the bytes. By convention whoever publishes a tensor in a message never writes it again;
/// only its single owner writes. An empty tensor (default-constructed) has no buffer.
class Tensor {
 public:
  Tensor() = default;
  Tensor(BufferPtr buffer, size_t offset_bytes, Shape shape, DType dtype)
      : buffer_(std::move(buffer)), offset_(offset_bytes), shape_(shape), dtype_(dtype) {
    TROUPE_CHECK(buffer_ && offset_ + bytes() <= buffer_->bytes(), "view ", offset_, "+", bytes(), " of ",
                 buffer_ ? buffer_->bytes() : 0, " bytes");
  }

  /// New CPU memory; its contents are undefined.
  static Tensor empty(Shape shape, DType dtype = DType::f32) {
    return Tensor(allocate(static_cast<size_t>(shape.count()) * size_of(dtype)), 0, shape, dtype);
  }
  /// The same for what is published as it is and may go to other processes (allocate_to_lend).
  static Tensor to_lend(Shape shape, DType dtype = DType::f32) {
    return Tensor(allocate_to_lend(static_cast<size_t>(shape.count()) * size_of(dtype)), 0, shape, dtype);
  }
  static Tensor zeros(Shape shape, DType dtype = DType::f32) {
    Tensor t = empty(shape, dtype);
    std::memset(t.raw(), 0, t.bytes());
    return t;
  }
  template <class T>
  static Tensor from(std::span<const T> values, Shape shape) {
    TROUPE_CHECK(static_cast<int64_t>(values.size()) == shape.count(), values.size(), " values for ", shape);
    Tensor t = empty(shape, dtype_of<T>);
    if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
    return t;
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  size_t bytes() const { return static_cast<size_t>(count()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return buffer_ ? buffer_->device() : Device{}; }
  const BufferPtr& buffer() const { return buffer_; }
  size_t offset_bytes() const { return offset_; }

  std::byte* raw() { return buffer_->data() + offset_; }
  const std::byte* raw() const { return buffer_->data() + offset_; }
  template <class T>
  T* data() {
    TROUPE_CHECK(dtype_ == dtype_of<T>, "dtype is ", name_of(dtype_));
    return reinterpret_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    TROUPE_CHECK(dtype_ == dtype_of<T>, "dtype is ", name_of(dtype_));
    return reinterpret_cast<const T*>(raw());
  }
  template <class T>
  std::span<T> span() { return {data<T>(), static_cast<size_t>(count())}; }
  template <class T>
  std::span<const T> span() const { return {data<T>(), static_cast<size_t>(count())}; }

  /// The same bytes seen with another shape of equal count.
  Tensor reshaped(Shape shape) const {
    TROUPE_CHECK(shape.count() == count(), shape_, " as ", shape);
    Tensor t = *this;
    t.shape_ = shape;
    return t;
  }
  /// Elements [begin, begin + shape.count()) of the flattened tensor.
  Tensor view(int64_t begin, Shape shape) const {
    TROUPE_CHECK(begin >= 0 && begin + shape.count() <= count(), begin, " + ", shape, " of ", shape_);
    return Tensor(buffer_, offset_ + static_cast<size_t>(begin) * size_of(dtype_), shape, dtype_);
  }
  /// A copy with memory of its own.
  Tensor clone() const {
    Tensor t = empty(shape_, dtype_);
    std::memcpy(t.raw(), raw(), bytes());
    return t;
  }

 private:
  BufferPtr buffer_;
  size_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

}  // namespace troupe
