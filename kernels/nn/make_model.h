#pragma once
#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/model.h>
#include <troupe/kernels/nn/model_spec.h>

namespace troupe::nn {

/// The model that `[model]` describes. An unknown word, a number out of range, or settings that do not fit
/// each other or the samples are `invalid` errors that name the setting.
Result<Model> make_model(const ModelSpec& spec);

}  // namespace troupe::nn
