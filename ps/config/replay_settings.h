#pragma once
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/load.h>

namespace troupe::ps {

/// May a run with this config repeat the run recorded in folder `run`? Its numbers and its events must be the same;
/// only names, reports, restarts and where the data lies may be others. An error names the first setting that
/// differs, with both values.
Status check_same_run(const RunConfig& config, const Sources& sources, const std::string& run);

}  // namespace troupe::ps
