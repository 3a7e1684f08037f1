#include <troupe/kernels/tensor/stream.h>

#include <troupe/kernels/base/check.h>

namespace troupe {

BufferPtr Stream::allocate(size_t bytes) {
  TROUPE_CHECK(device_.kind == DeviceKind::cpu, "memory of a stream that is not on the CPU");
  return troupe::allocate(bytes);
}

void Stream::copy(const Tensor& from, Tensor& to) {
  TROUPE_CHECK(from.count() == to.count() && from.dtype() == to.dtype() && from.device() == to.device(), "copy of ",
               name_of(from.dtype()), from.shape(), " to ", name_of(to.dtype()), to.shape());
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
}

std::byte* Stream::scratch(size_t bytes) {
  if (!scratch_ || scratch_->bytes() < bytes) {
    scratch_.reset();  // first, so that the two never add up
    scratch_ = allocate(bytes);
  }
  return scratch_->data();
}

}  // namespace troupe
