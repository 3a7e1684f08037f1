#include <troupe/ps/pipeline/collective_cost.h>

#include <algorithm>

namespace troupe::ps {

double all_reduce_s(double bytes, double n, double bytes_per_s) { return 2 * (n - 1) / n * bytes / bytes_per_s; }

double reduce_scatter_s(double bytes, double n, double bytes_per_s) { return (n - 1) / n * bytes / bytes_per_s; }

double broadcast_s(double bytes, double n, double bytes_per_s) { return n > 1 ? bytes / bytes_per_s : 0; }

double servers_apart_s(double bytes, double n, double k, double bytes_per_s) {
  return std::max(bytes / bytes_per_s, n * bytes / (k * bytes_per_s));
}

double servers_everywhere_s(double bytes, double n, double k, double bytes_per_s) {
  return n > 1 ? 2 * n * (n - 1) * bytes / ((n * n + k * n - 2 * k) * bytes_per_s) : 0;
}

}  // namespace troupe::ps
