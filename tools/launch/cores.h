#pragma once
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// Numbers of the cores that this process may run on, ascending.
std::vector<int> usable_cores();

/// From now on this thread and all that it starts run on `core` alone. Fails where that is none of this process's.
Status bind_to_core(int core);

}  // namespace troupe::launch
