#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

#include "bench.h"

using namespace troupe;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  TROUPE_CHECK(!values.empty(), "the median of nothing");
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<std::vector<double>> alternate(int repetitions, const std::vector<std::function<double()>>& measure) {
  std::vector<std::vector<double>> values(measure.size());
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (size_t i = 0; i < measure.size(); ++i) values[i].push_back(measure[i]());
  return values;
}

std::string verdict(const std::string& what, double value, double target, bool at_least, const std::string& unit) {
  const bool met = at_least ? value >= target : value <= target;
  return cat(what, ' ', ps::fixed(value, 2), unit, ", target at ", at_least ? "least " : "most ", ps::fixed(target, 2),
             unit, ": ", met ? "met" : "missed");
}
