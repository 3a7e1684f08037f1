#include <troupe/kernels/nn/gradient_source.h>

namespace troupe {

std::vector<size_t> GradientSource::gradient_order() const {
  std::vector<size_t> order;
  for (size_t layer = layers().size(); layer-- > 0;) order.push_back(layer);
  return order;
}

}  // namespace troupe
