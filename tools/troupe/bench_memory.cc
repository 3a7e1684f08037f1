#include "bench_memory.h"

#include <unistd.h>

#include <cstring>
#include <fstream>

#include <troupe/kernels/tensor/tensor.h>

#include "bench.h"

using namespace troupe;

namespace {

/// GCC and Clang know it as one register; four sums hide how long an addition takes.
using Floats = float __attribute__((vector_size(32)));

float sum(const Floats* values, int64_t n) {
  Floats lanes[4] = {};
  for (int64_t i = 0; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; ++k) lanes[k] += values[i + k];
  const Floats all = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  float total = 0;
  for (int k = 0; k < 8; ++k) total += all[k];
  return total;
}

template <class Pass>
double bytes_per_second(int64_t bytes, double seconds, const Pass& pass) {
  pass();
  int64_t passes = 0;
  const double begin_s = now_s();
  while (passes == 0 || now_s() - begin_s < seconds) {
    pass();
    ++passes;
  }
  return static_cast<double>(bytes * passes) / (now_s() - begin_s);
}

}  // namespace

double read_and_add(int64_t bytes, double seconds) {
  const Tensor values = Tensor::zeros({bytes / 4});
  volatile float total = 0;  // so that the sum is worked out
  return bytes_per_second(bytes, seconds, [&] {
    total = total + sum(reinterpret_cast<const Floats*>(values.raw()), bytes / static_cast<int64_t>(sizeof(Floats)));
  });
}

double copy(int64_t bytes, double seconds) {
  const Tensor from = Tensor::zeros({bytes / 4});
  Tensor to = Tensor::zeros({bytes / 4});
  return bytes_per_second(bytes, seconds, [&] { std::memcpy(to.raw(), from.raw(), static_cast<size_t>(bytes)); });
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}
