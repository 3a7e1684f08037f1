#pragma once
#include <string>

#include <troupe/kernels/ops/conv.h>

/// Who convolves: `conv_ops` (families.h) and `conv_library` are defined in cudnn/ where cuDNN was found when Troupe
/// was configured, else in no_cudnn/ (tools/cmake/Cuda.cmake, TROUPE_CUDNN_FOUND).
namespace troupe::ops::cuda {

/// For people: "cuDNN 9.19.0", or what takes its place.
std::string conv_library();

/// Convolutions by matrices of patches and products of cuBLAS (conv.cu): all types and sizes.
ConvOps patch_conv_ops();

}  // namespace troupe::ops::cuda
