#pragma once
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ps {

/// NumPy's NPY, versions 1 to 3, elements u1, i4, i8, f4, f8, little-endian, C order. The shape is compared
/// with the size of the file before memory is taken.
///
/// As values: u1 stays U8, all others become F32 (rounded). Any shape of 1 to 6 dimensions.
Result<Tensor> read_npy_values(const std::string& path);
/// As labels: u1, i4 or i8, shape [n] or [n, 1], become I32[n]; a number beyond 32 bits is an error.
Result<Tensor> read_npy_labels(const std::string& path);

}  // namespace troupe::ps
