#pragma once
#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/model.h>
#include <troupe/kernels/nn/model_spec.h>

namespace troupe::nn {

/// What only a resnet asks of its spec (ModelSpec); the errors name the setting.
Status check_resnet(const ModelSpec& spec);

/// The residual net of a spec that passed the checks.
Model make_resnet(const ModelSpec& spec);

}  // namespace troupe::nn
