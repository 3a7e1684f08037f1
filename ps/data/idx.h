#pragma once
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ps {

/// IDX, the format of MNIST and its relatives, plain or gzipped: 00 00, the element type (08: unsigned bytes,
/// the only one read), the number of dimensions, each dimension as 4 bytes big-endian, the elements
/// row-major. The dimensions are compared with the size of the file before memory is taken.
Result<Tensor> read_idx(const std::string& path);

/// Images [n, height, width] become [n, 1, height, width]; other shapes stay. Labels become I32[n].
Result<Tensor> read_idx_images(const std::string& path);
Result<Tensor> read_idx_labels(const std::string& path);

}  // namespace troupe::ps
