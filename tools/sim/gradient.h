#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/ids.h>

/// The gradients of a simulated run: small integers that are a function of who computes what, so that every
/// contribution differs and the oracle can say what each should have been.
namespace troupe::sim {

/// Batch::seed of a worker's step, as the worker actor derives it.
uint64_t work_seed(uint64_t run_seed, ps::Step step, ps::WorkerId worker);

/// The sum over `samples`, each between -4 and 4 an element. `weights` (of the whole layer) may be empty: the
/// gradient then does not depend on them.
std::vector<float> gradient(uint64_t work_seed, std::span<const uint32_t> samples, ps::LayerId layer, int64_t count,
                            const Tensor& weights);

/// The layer whose gradient holds a NaN in this step of this worker; `layers` if none does.
size_t non_finite_layer(uint64_t work_seed, double probability, size_t layers);

/// First parameters.
float initial_value(ps::LayerId layer, int64_t element);

}  // namespace troupe::sim
