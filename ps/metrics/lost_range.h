#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::ps {

/// A part of a layer that went back to a checkpoint because its server was lost: what workers had pushed to it since
/// counts no more.
struct LostRange {
  int64_t server = 0;
  std::string layer;
  int64_t begin = 0, end = 0;       ///< elements of the layer
  int64_t from_step = 0;            ///< it is as it was before this step,
  int64_t to_step = 0;              ///< and goes on with this one
  int64_t updates = 0;              ///< that it has had now
  int64_t updates_lost = 0;         ///< at most: steps of a synchronous layer, pushes of another
  bool operator==(const LostRange&) const = default;
};

/// "layer fc1 [0, 100) of server 1 is as before step 40 (40 updates) and goes on with step 43: up to 3 updates lost".
std::string describe(const LostRange& lost);
/// Of all, at most.
int64_t updates_lost(const std::vector<LostRange>& lost);

}  // namespace troupe::ps
