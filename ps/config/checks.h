#pragma once
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/load.h>

namespace troupe::ps {

/// What no setting alone can tell: whether they fit each other. A problem names every term with its value and
/// source; a warning is a setting that has no effect.
void check_config(const RunConfig& config, const Sources& sources, std::vector<std::string>& problems,
                  std::vector<std::string>& warnings);

/// The same once the data are there: more workers or a larger batch than samples.
Status check_against_data(const RunConfig& config, const Sources& sources, int64_t train_samples);

/// The same once the model is there: an `[[update]]` table that fits none of its layers, a debug.nan_layer that it
/// has not.
Status check_against_model(const RunConfig& config, const Sources& sources, const std::vector<std::string>& layers);

}  // namespace troupe::ps
