#include <troupe/kernels/collective/communicator.h>

#include <algorithm>

namespace troupe {

Part part_of(int64_t count, int rank, int size) {
  constexpr int64_t kLine = 16;
  const int64_t lines = (count + kLine - 1) / kLine;
  const auto begin_of = [&](int64_t r) { return std::min(count, (lines * r + size - 1) / size * kLine); };
  return {begin_of(rank), begin_of(rank + 1)};
}

}  // namespace troupe
