#pragma once
#include <memory>

#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/nn/stage_source.h>

#include "oracle.h"

namespace troupe::sim {

/// Gradients that are small integers, worked out of the samples (gradient.h), and what a worker computes told to the
/// oracle. `current`: the worker has not been replaced.
std::unique_ptr<GradientSource> make_simulated_source(const Scenario& scenario, ps::WorkerId worker,
                                                      std::shared_ptr<bool> current, Oracle& oracle);

/// The same for a stage of a replica. What it hands on names the micro-batch, so that whoever is given another's
/// notices.
std::unique_ptr<StageSource> make_simulated_stage(const Scenario& scenario, ps::WorkerId worker,
                                                  std::shared_ptr<bool> current, Oracle& oracle);

}  // namespace troupe::sim
