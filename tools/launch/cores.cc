#include "cores.h"

#include <sched.h>

#include <cerrno>
#include <cstring>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

Status bind_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return fail(ErrorKind::invalid, cat("cannot run on core ", core, " alone: ", std::strerror(errno),
                                      "; taskset -p $$ says which there are"));
}

}  // namespace troupe::launch
