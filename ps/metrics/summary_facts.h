#pragma once
#include <map>
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// The texts and numbers of a summary.json by name, as they stand there ("steps": "512"); its lists and what is null
/// are left out. For whoever reads the summary of another version, which may have more or less in it.
Result<std::map<std::string, std::string>> read_summary_facts(const std::string& path);

}  // namespace troupe::ps
