#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/policy.h>

/// Small sums and choices that several parts of CoordinatorCore make.
namespace troupe::ps {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

inline StepStats& operator+=(StepStats& sum, const StepStats& other) {
  sum.loss_sum += other.loss_sum;
  sum.correct += other.correct;
  sum.samples += other.samples;
  return sum;
}

inline Step first_multiple_after(Step step, int64_t every) { return every > 0 ? (step / every + 1) * every : kNever; }

inline bool lockstep(const std::vector<Policy>& policies) {
  return std::any_of(policies.begin(), policies.end(), [](const Policy& p) { return p.lockstep(); });
}

// An immediate push is applied before anybody could have decided to skip its step.
inline Status check_scaled(const std::vector<Policy>& policies) {
  for (const Policy& policy : policies)
    if (policy.immediate())
      return fail(ErrorKind::invalid,
                  cat("dynamic loss scaling is a decision of all workers on each step, which layers in mode ",
                      describe(policy), " do not wait for: use sync or all_reduce, or a fixed scale"));
  return {};
}

// No collective reaches beyond a process: there the servers add up, which gives the same numbers.
inline std::vector<Policy> over_processes(std::vector<Policy> policies) {
  for (Policy& policy : policies)
    if (policy.mode == Mode::all_reduce) policy = Policy{Mode::sync, 0};
  return policies;
}

}  // namespace troupe::ps
