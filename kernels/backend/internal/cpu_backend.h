#pragma once
#include <troupe/kernels/backend/backend.h>

namespace troupe {

/// One device, the CPU: streams run at once, order is the caller's, a group is one of threads.
std::shared_ptr<Backend> make_cpu_backend();

}  // namespace troupe
