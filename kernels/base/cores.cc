#include <troupe/kernels/base/cores.h>

#include <sched.h>

#include <algorithm>
#include <thread>

namespace troupe {

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // It fails where the host has more cores than the set has places.
  const int count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  return count > 0 ? static_cast<unsigned>(count) : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace troupe
