#include <troupe/kernels/nn/loss_scale.h>

namespace troupe::nn {

void unscale(const Pass& pass, const LayerSpec& layer, Tensor& gradient) {
  if (pass.loss_scale == 1) return;
  for (const ParamSpec& param : layer.params) {
    if (param.kind == ParamKind::statistic) continue;
    Tensor part = layer.row_width > 0 ? gradient : gradient.view(param.offset, param.shape);  // perhaps some rows
    pass.ops.scale(pass.stream, 1 / pass.loss_scale, part);
  }
}

}  // namespace troupe::nn
