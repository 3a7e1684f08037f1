#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include <troupe/kernels/tensor/stream.h>

namespace troupe::ops::cpu {

/// Calls body(begin, end) for ranges that cover [0, n), on up to as many threads as the stream has. `cost` is
/// about how many elements an item is; ranges below 32 Ki elements (some 10 us) are not worth a thread.
/// `body` must not throw and must give the same results however [0, n) is cut.
template <class Body>
void split(const Stream& stream, int64_t n, int64_t cost, Body body) {
  const int64_t parts = std::min<int64_t>({stream.threads(), n, n * cost / 32768});
  if (parts <= 1) return body(int64_t{0}, n);
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static)
  for (int64_t part = 0; part < parts; ++part) body(n * part / parts, n * (part + 1) / parts);
}

/// While it lives, oneDNN calls of this thread use the stream's number of threads (it asks OpenMP).
class UseThreads {
 public:
  explicit UseThreads(const Stream& stream) : before_(omp_get_max_threads()) {
    omp_set_num_threads(stream.threads());
  }
  ~UseThreads() { omp_set_num_threads(before_); }
  UseThreads(const UseThreads&) = delete;
  UseThreads& operator=(const UseThreads&) = delete;

 private:
  int before_;
};

}  // namespace troupe::ops::cpu
