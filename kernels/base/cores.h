#pragma once

namespace troupe {

/// Cores that the calling thread may run on, at least 1. Unlike std::thread::hardware_concurrency, which may count all
/// cores of the host (glibc 2.36 does), it heeds what the thread is bound to: taskset, cgroup cpusets, batch systems.
unsigned usable_cores();

}  // namespace troupe
