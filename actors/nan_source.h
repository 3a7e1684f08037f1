#pragma once
#include <memory>
#include <string>

#include <troupe/kernels/nn/gradient_source.h>

namespace troupe {

/// `source`, but its gradient of `layer` (empty: the first) at its `at_step`-th call of backward begins with a NaN:
/// shows what a run does about it (`[debug] nan_*`).
std::unique_ptr<GradientSource> make_nan_source(std::unique_ptr<GradientSource> source, int64_t at_step,
                                                std::string layer);

}  // namespace troupe
