#pragma once
#include <cstdint>

/// How long exchanges take at least: `bytes` in each member's buffer, `bytes_per_s` each way at each member, n members.
/// Seconds; n = 1 takes none. NVIDIA/nccl-tests, doc/PERFORMANCE.md.
namespace troupe::ps {

/// 2 (n-1)/n bytes / bandwidth: ring, or reduce-scatter and all-gather.
double all_reduce_s(double bytes, double n, double bytes_per_s);
/// (n-1)/n bytes / bandwidth; the same for an all-gather.
double reduce_scatter_s(double bytes, double n, double bytes_per_s);
/// bytes / bandwidth; the same for a reduce.
double broadcast_s(double bytes, double n, double bytes_per_s);

/// Gradients pushed to servers and parameters pulled back, n machines with workers, k more with servers alone (Jiang et
/// al., BytePS, OSDI 2020).
/// Servers on the k machines only: max(bytes / bandwidth, n bytes / (k bandwidth)).
double servers_apart_s(double bytes, double n, double k, double bytes_per_s);
/// Servers on all n + k machines, with the best split between both kinds: 2 n (n-1) bytes / ((n^2 + k n - 2 k)
/// bandwidth). It is all_reduce for k = 0, and servers_apart for k = n.
double servers_everywhere_s(double bytes, double n, double k, double bytes_per_s);

}  // namespace troupe::ps
