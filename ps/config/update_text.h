#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/param/policy.h>

namespace troupe::ps {

/// `[[update]]` tables on one line, for the command line and the environment: rules `GLOB:MODE` separated by
/// commas, ssp with its staleness in parentheses: "fc1:sync,fc*:ssp(2),*:async". A mode alone is for all
/// layers.
Result<std::vector<UpdateRule>> parse_rules(std::string_view text);

}  // namespace troupe::ps
