#pragma once
#include <string>
#include <string_view>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// What a setting is, takes and defaults to, and the three ways to set it. `key` may be a table ("train") or
/// empty for everything. An unknown one is an error with the nearest.
Result<std::string> explain(std::string_view key);

}  // namespace troupe::ps
