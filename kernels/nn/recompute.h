#pragma once
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/model.h>
#include <troupe/kernels/nn/model_spec.h>

namespace troupe::nn {

/// ModelSpec::recompute and recompute_every: an unknown word, or a number below 1, is an error.
Status check_recompute(const ModelSpec& spec);

/// Lets the model keep of its blocks what the spec says. Block i is nodes [ends[i], ends[i + 1]); between blocks one
/// tensor passes (Model::recompute).
void recompute_blocks(const ModelSpec& spec, const std::vector<int>& ends, Model& model);

}  // namespace troupe::nn
