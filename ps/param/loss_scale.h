#pragma once
#include <cstdint>

namespace troupe::ps {

/// By what the loss is multiplied for the backward pass. Dynamic: gradients that overflow 16 bits cost their step, and
/// the scale falls; steps that do not let it rise again (Micikevicius et al. 2017). Names and defaults are those of
/// PyTorch's GradScaler; `least` is DeepSpeed's and Megatron's minimum.
struct LossScaling {
  bool dynamic = false;
  double initial = 1;       ///< the scale itself, where it is not dynamic
  double growth = 2;        ///< factor, after...
  int64_t interval = 2000;  ///< ...so many steps in a row without overflow
  double backoff = 0.5;     ///< factor, behind a step with one
  double least = 1;         ///< it never falls below
};

/// Where a run stands.
struct LossScale {
  double value = 1;
  int64_t good_steps = 0;  ///< since it changed, or the last overflow
  bool operator==(const LossScale&) const = default;
};

/// The scale of the step behind one that overflowed, or did not. It never grows beyond what a float can hold.
LossScale next_loss_scale(const LossScaling&, LossScale, bool overflow);

}  // namespace troupe::ps
