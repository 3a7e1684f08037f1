#include <tests/support/cuda/emulated_stream.h>

#include <new>

namespace troupe::test::cuda {
namespace {

constexpr std::align_val_t kAlignment{Buffer::kAlignment};

}  // namespace

BufferPtr EmulatedStream::allocate(size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  std::memset(data, 0xFF, bytes);
  return std::make_shared<Buffer>(data, bytes, device(), [](Buffer& b) { ::operator delete(b.data(), kAlignment); });
}

void EmulatedStream::copy(const Tensor& from, Tensor& to) {
  TROUPE_CHECK(from.count() == to.count() && from.dtype() == to.dtype(), "copy of ", from.shape(), " to ", to.shape());
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
}

void EmulatedStream::run(const Grid& grid, const std::function<void()>& thread) {
  launches_.push_back(grid.kernel);
  run_grid(grid, random_.bits64(), thread);
}

Tensor as_host(const Tensor& t) {
  struct Alias {
    explicit Alias(BufferPtr device)
        : kept(std::move(device)), host(kept->data(), kept->bytes(), Device{}, [](Buffer&) {}) {}
    BufferPtr kept;
    Buffer host;
  };
  const auto alias = std::make_shared<Alias>(t.buffer());
  return Tensor(BufferPtr(alias, &alias->host), t.offset_bytes(), t.shape(), t.dtype());
}

}  // namespace troupe::test::cuda
