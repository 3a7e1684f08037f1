#include <troupe/kernels/ops/cuda/conv_choice.h>
#include <troupe/kernels/ops/cuda/families.h>

namespace troupe::ops::cuda {

ConvOps conv_ops() { return patch_conv_ops(); }

std::string conv_library() { return "patches and products (built without cuDNN)"; }

}  // namespace troupe::ops::cuda
