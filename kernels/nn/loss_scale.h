#pragma once
#include <troupe/kernels/nn/layer.h>

namespace troupe::nn {

/// Divides a layer's summed gradient by `Pass::loss_scale`, in place. Statistics come from no loss and stay.
void unscale(const Pass&, const LayerSpec&, Tensor& gradient);

}  // namespace troupe::nn
