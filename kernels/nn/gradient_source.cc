#include <troupe/kernels/nn/gradient_source.h>

#include <troupe/kernels/base/check.h>

namespace troupe {

std::vector<size_t> GradientSource::gradient_order() const {
  std::vector<size_t> order;
  for (size_t layer = layers().size(); layer-- > 0;) order.push_back(layer);
  return order;
}

Tensor GradientSource::rows(const Batch&, size_t layer) {
  TROUPE_CHECK(layer < layers().size() && layers()[layer].row_width == 0, "layer ", layer,
               " is by rows, and its source does not say which");
  return {};
}

}  // namespace troupe
