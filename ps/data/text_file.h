#pragma once
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// All bytes of a file, plain or gzipped. More than `most_bytes` are an error, before memory is taken for them.
Result<std::string> read_text_file(const std::string& path, size_t most_bytes = size_t{1} << 32);

}  // namespace troupe::ps
