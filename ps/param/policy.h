#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// How a layer is kept in step (DESIGN: update policies). Two questions decide everything: is a push
/// aggregated with the other workers' or applied at once, and how far may a read lag.
///
///   mode         push                              read at step t may lag
///   all_reduce   never leaves the workers          0
///   sync         one mean of all workers' pushes   0
///   ssp          applied at once                   `staleness` steps behind the slowest worker
///   async        applied at once                   without bound
enum class Mode : uint8_t { all_reduce, sync, ssp, async };

struct Policy {
  Mode mode = Mode::sync;
  int64_t staleness = 0;  ///< steps; only for ssp
  bool operator==(const Policy&) const = default;

  /// Pushes of one step are summed over all workers before one optimizer step.
  bool aggregates() const { return mode == Mode::sync; }
  /// Pushes are applied as they come.
  bool immediate() const { return mode == Mode::ssp || mode == Mode::async; }
  /// All workers take step t together.
  bool lockstep() const { return mode == Mode::sync || mode == Mode::all_reduce; }
};

const char* name_of(Mode mode);
/// "ssp(3)", "sync".
std::string describe(const Policy& policy);

/// One `[[update]]` table.
struct UpdateRule {
  std::string layers = "*";  ///< glob: `*`, `?`, `[abc]`
  Policy policy;
  int64_t from_step = 0;     ///< of the run: until then the rules of an earlier step decide
};

/// From `step` on, these rules decide, and none of those before.
struct PolicyChange {
  int64_t step = 0;
  std::vector<UpdateRule> rules;
};

/// The rules by their `from_step`, ascending; within a step in the order given.
std::vector<PolicyChange> rules_by_step(const std::vector<UpdateRule>& rules);

/// The policy of each layer: the first rule whose glob matches its name. A layer that no rule matches, or a
/// rule that matches no layer (a typing error, most likely), is an error that lists the names. `from_step` is
/// not looked at.
Result<std::vector<Policy>> resolve_policies(const std::vector<std::string>& layer_names,
                                             const std::vector<UpdateRule>& rules);

bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace troupe::ps
