#pragma once
#include <string>
#include <vector>

#include <troupe/kernels/nn/gradient_source.h>

namespace troupe::ps {

/// What the globs of `[[update]]` match, in the layers' order.
inline std::vector<std::string> layer_names(const std::vector<LayerSpec>& layers) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : layers) names.push_back(layer.name);
  return names;
}

}  // namespace troupe::ps
