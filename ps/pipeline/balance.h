#pragma once
#include <span>
#include <string>

#include <troupe/ps/pipeline/layer_profile.h>
#include <troupe/ps/pipeline/stage_plan.h>

namespace troupe::ps {

/// A sentence for the log when the slowest stage takes more than 1 + `threshold` times what it would under a better
/// cut, which it names as a value of parallel.cuts; else empty. `costs` by piece (pieces.h), measured or estimated, say
/// how a stage's time is shared among its layers. `seconds`: what each stage has computed for, over any number of
/// steps. With several chunks a stage it says how unequal the stages are, without another cut.
std::string imbalance(std::span<const LayerCost> costs, const StagePlan& plan, std::span<const double> seconds,
                      double threshold = 0.15);

}  // namespace troupe::ps
