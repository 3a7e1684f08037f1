#pragma once
#include <string>

#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ps {

/// What a reader finds in files: values U8 or F32 [samples, ...], labels I32[samples].
struct Samples {
  std::string name;  ///< the file, for errors
  Tensor values;
  Tensor labels;
};

}  // namespace troupe::ps
