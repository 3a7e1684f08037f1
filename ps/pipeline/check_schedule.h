#pragma once
#include <span>
#include <vector>

#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// What a chunk keeps of one micro-batch, in bytes or any other unit.
struct ActivationSizes {
  double after_forward = 1;         ///< M_B: until backward_input
  double after_backward_input = 0;  ///< M_W: until backward_weight
};

/// Every chunk on one stage; forward, backward_input and backward_weight of every micro-batch once, on that stage; one
/// step of every chunk after all of its gradients, or one a group of micro-batches where steps are not flushed.
Status check_complete(const Schedule& schedule);

/// No stage waits, directly or around others, for what it has yet to do itself. The error names the circle. The
/// schedule is complete.
Status check_order(const Schedule& schedule);

/// By stage, the most that is held at a time. `sizes`: by chunk. The schedule is complete.
std::vector<double> peak_activations(const Schedule& schedule, std::span<const ActivationSizes> sizes);

/// Proves before a run that the schedule is complete, free of deadlock and within `limit` on every stage.
Status check(const Schedule& schedule, std::span<const ActivationSizes> sizes, double limit);
/// The same without a limit.
Status check(const Schedule& schedule);

}  // namespace troupe::ps
