#include <troupe/kernels/nn/half_storage.h>

namespace troupe::nn {
namespace {

Tensor cast(const Pass& pass, const Tensor& x, DType dtype) {
  Tensor y = pass.stream.empty(x.shape(), dtype);
  pass.ops.cast(pass.stream, x, y);
  return y;
}

// The same elements of the same memory.
bool is_same(const Tensor& a, const Tensor& b) {
  return a && b && a.buffer() == b.buffer() && a.offset_bytes() == b.offset_bytes() && a.count() == b.count();
}

}  // namespace

Tensor stored(const Pass& pass, const Tensor& x) {
  return halves(pass) && x && x.dtype() == DType::f32 ? cast(pass, x, pass.storage) : x;
}

Tensor loaded(const Pass& pass, const Tensor& x) {
  return halves(pass) && x && x.dtype() == pass.storage ? cast(pass, x, DType::f32) : x;
}

Tensor weights_for(const Pass& pass, const Layer& layer, const Tensor& masters) {
  return layer.reads_masters() ? masters : loaded(pass, stored(pass, masters));
}

Tensor store_forward(const Pass& pass, const Tensor& x, const Tensor& kept, Tensor y, bool is_output,
                     LayerContext& context) {
  if (!halves(pass)) return y;
  Tensor out = is_output ? y : is_same(y, x) ? kept.reshaped(y.shape()) : stored(pass, y);
  for (Tensor* part : {&context.x, &context.y, &context.z}) {
    if (!*part) continue;
    const bool is_input = is_same(*part, x);
    if (is_input || (!is_output && is_same(*part, y)))
      *part = (is_input ? kept : out).reshaped(part->shape());  // kept once
    else
      *part = stored(pass, *part);
  }
  return out;
}

LayerContext loaded(const Pass& pass, const LayerContext& context) {
  LayerContext wide = context;
  for (Tensor* part : {&wide.x, &wide.y, &wide.z, &wide.dz}) *part = loaded(pass, *part);
  return wide;
}

}  // namespace troupe::nn
