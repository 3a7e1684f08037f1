#pragma once
#include <memory>

#include <troupe/kernels/nn/gradient_source.h>

#include "oracle.h"

namespace troupe::sim {

/// Gradients that are small integers, worked out of the samples (gradient.h), and what a worker computes told to the
/// oracle. `current`: the worker has not been replaced.
std::unique_ptr<GradientSource> make_simulated_source(const Scenario& scenario, ps::WorkerId worker,
                                                      std::shared_ptr<bool> current, Oracle& oracle);

}  // namespace troupe::sim
