#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// What one layer, or a few that cannot be cut apart, costs for one micro-batch, measured or estimated. Times in
/// seconds.
struct LayerCost {
  std::string name;
  uint32_t layers = 1;  ///< of the model
  double forward = 0, backward_input = 0, backward_weight = 0;
  double output_bytes = 0;      ///< what goes to the next layer, and as its gradient comes back
  double kept_bytes = 0;        ///< from forward to backward_input
  double kept_input_bytes = 0;  ///< from backward_input to backward_weight
  double parameter_bytes = 0;

  double time() const { return forward + backward_input + backward_weight; }
};

struct LayerProfile {
  std::string device;       ///< what it was measured on, for people
  int64_t micro_batch = 1;  ///< samples
  std::vector<LayerCost> layers;
};

/// CSV: lines "# device ..." and "# micro_batch N", a header with the columns of LayerCost, a line a layer. Written
/// numbers are read back as they were. Errors begin with NAME:LINE.
std::string profile_csv(const LayerProfile& profile);
Result<LayerProfile> parse_profile_csv(std::string_view text, const std::string& name);
Result<LayerProfile> read_profile_csv(const std::string& path);

}  // namespace troupe::ps
