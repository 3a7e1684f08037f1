#pragma once
#include <map>
#include <optional>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/rows.h>
#include <troupe/ps/param/vector_clock.h>

namespace troupe::ps {

/// One worker's part of a synchronous step, kept by reference until the step is complete.
struct Contribution {
  int64_t samples = 0;
  Step schedule_step = 0;
  std::vector<Tensor> gradients;
  bool finite = true;
  Tensor rows;  ///< of a parcel by rows, as in the Push
};

/// Gradients of rows, by whom, in the order they are summed.
struct RowParts {
  std::vector<WorkerId> workers;
  std::vector<RowValues> values;
};

/// How far a parcel has come on its shard, and who waits for it.
struct HeldParcel {
  /// A worker's last answered read: of which step, and how many updates it had seen.
  struct Read {
    Step step = -1;
    int64_t updates = -1;
  };

  VectorClock clock;
  Step version = 0;                          ///< sync: the step that the parameters are the input of
  std::map<WorkerId, Contribution> pending;  ///< sync: to step `version`, in the order they are summed
  /// Sync: parameters of `version` - 1, one a slice, for a worker that was restarted in that step. Empty at first.
  std::vector<Tensor> previous;
  /// Sync, by rows, in place of `previous`: what is different in it, so that no step copies the whole table.
  struct Before {
    Tensor rows, values;
  };
  std::optional<Before> before;
  std::map<WorkerId, Envelope> waiting;  ///< pulls that may not be answered yet
  std::vector<Read> reads;               ///< by worker
  int64_t updates = 0;

  /// The parameters of the version before this one are known.
  bool remembers() const { return before || !previous.empty(); }
  /// Every present worker has contributed to the step.
  bool complete() const { return !pending.empty() && clock.slowest() > version; }
  /// By rows: the contributions that have something to add.
  RowParts row_parts() const {
    RowParts parts;
    for (const auto& [worker, part] : pending) {
      if (part.samples == 0) continue;
      parts.workers.push_back(worker);
      parts.values.push_back({part.rows.span<int32_t>(), part.gradients.front().span<float>()});
    }
    return parts;
  }
  int64_t samples() const {
    int64_t sum = 0;
    for (const auto& [worker, part] : pending) sum += part.samples;
    return sum;
  }
};

}  // namespace troupe::ps
