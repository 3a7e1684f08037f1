#include <troupe/kernels/tensor/stream.h>

#include <troupe/kernels/base/check.h>

namespace troupe {

std::byte* Stream::scratch(size_t bytes) {
  TROUPE_CHECK(device_.kind == DeviceKind::cpu, "scratch memory of a stream that is not on the CPU");
  if (!scratch_ || scratch_->bytes() < bytes) {
    scratch_.reset();  // first, so that the two never add up
    scratch_ = allocate(bytes);
  }
  return scratch_->data();
}

}  // namespace troupe
