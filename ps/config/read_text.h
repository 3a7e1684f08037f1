#pragma once
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// All of a file that a user named. Errors say `what` it should have been ("the config file") and, where it is a
/// folder, `instead` ("a TOML file"): invalid a folder, missing what cannot be opened.
Result<std::string> read_text(const std::string& path, const char* what, const char* instead);

}  // namespace troupe::ps
