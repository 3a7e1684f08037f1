#pragma once
#include <cstdint>

#include <troupe/ps/data/samples.h>

namespace troupe::ps {

/// Gaussian blobs for tests and examples: class c has a centre drawn from N(0, 1) a feature, its samples lie
/// around it with standard deviation `noise`. Labels go round: sample i has label i mod classes. The same
/// seed gives the same centres, `part` 0 and 1 (train and test) give different samples around them.
struct SyntheticOptions {
  int64_t samples = 4096;
  int64_t features = 32;
  int64_t classes = 10;
  double noise = 1;
  uint64_t seed = 1;
  uint64_t part = 0;
};
Samples make_blobs(const SyntheticOptions& options);

}  // namespace troupe::ps
