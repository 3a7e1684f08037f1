#pragma once
#include <troupe/kernels/ops/activation.h>
#include <troupe/kernels/ops/write.h>

namespace troupe::ops {

/// y = epilogue(y) in a pass of its own, behind an op that could not take it in.
inline void apply(Stream& stream, const ActivationOps& ops, Epilogue epilogue, Tensor& y) {
  switch (epilogue) {
    case Epilogue::none: return;
    case Epilogue::relu: return ops.relu(stream, y, y);
    case Epilogue::gelu: return ops.gelu(stream, y, y);
    case Epilogue::gelu_tanh: return ops.gelu_tanh(stream, y, y);
  }
}

}  // namespace troupe::ops
