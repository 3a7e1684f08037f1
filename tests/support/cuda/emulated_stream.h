#pragma once
#include <string>
#include <vector>

#include <tests/support/cuda/block_run.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/tensor/stream.h>

namespace troupe::test::cuda {

/// A stream of a CUDA device that is not there: its kernels run at once, on the calling thread, in an order drawn from
/// the seed. Its memory is the host's, filled with 0xFF (NaN, -1) and as long as asked for, so that AddressSanitizer
/// sees the first byte behind.
class EmulatedStream : public Stream {
 public:
  explicit EmulatedStream(uint64_t seed) : Stream({DeviceKind::cuda, 0}), random_(seed) {}

  BufferPtr allocate(size_t bytes) override;
  void copy(const Tensor& from, Tensor& to) override;

  void run(const Grid& grid, const std::function<void()>& thread);
  /// Kernels in the order of their launches.
  const std::vector<std::string>& launches() const { return launches_; }

 private:
  Random random_;
  std::vector<std::string> launches_;
};

/// The same bytes, said to be in host memory, so that the CPU's ops take them.
Tensor as_host(const Tensor& t);

}  // namespace troupe::test::cuda
