#pragma once
#include <span>
#include <string>

#include <troupe/kernels/nn/model.h>
#include <troupe/ps/pipeline/layer_profile.h>
#include <troupe/ps/pipeline/stage_plan.h>

namespace troupe::ps {

/// What layers cost as far as Model::work knows, between the places where the model can be cut: one entry a piece that
/// stays whole, in multiply-adds instead of seconds.
struct Pieces {
  std::vector<LayerCost> costs;
  std::vector<size_t> ends;  ///< by piece, the layer behind its last
};
Pieces pieces_of(const nn::Model& model);

/// A sentence for the log when the slowest stage takes more than 1 + `threshold` times what it would under a better cut,
/// which it names as a value of parallel.cuts; else empty. `seconds`: what each stage has computed for, over any number of
/// steps. With several chunks a stage it says how unequal the stages are, without another cut.
std::string imbalance(const nn::Model& model, const StagePlan& plan, std::span<const double> seconds,
                      double threshold = 0.15);

}  // namespace troupe::ps
