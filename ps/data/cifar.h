#pragma once
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/data/samples.h>

namespace troupe::ps {

/// The binary version of CIFAR-10 (a record: label, then 3 x 32 x 32 bytes) and of CIFAR-100 (coarse label,
/// fine label, bytes; the fine label is taken). The files are read one after the other into [n, 3, 32, 32];
/// each must be a whole number of records.
enum class Cifar { ten, hundred };
Result<Samples> read_cifar(Cifar kind, const std::vector<std::string>& paths);

}  // namespace troupe::ps
