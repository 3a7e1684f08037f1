#pragma once
#include <vector>

#include <troupe/ps/pipeline/schedule.h>
#include <troupe/ps/pipeline/stage_order.h>

namespace troupe::ps {

/// Of one micro-batch on one chunk, all in the same unit; Timing is in that unit too.
struct ChunkTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double transfer = 0;    ///< to or from the next chunk, if that is on another stage; it occupies no device
  double all_reduce = 0;  ///< occupies no device; the all-reduces of a stage follow each other
  double step = 0;
};

/// One action while it occupies its stage (or, all_reduce, the stage's network).
struct TimedAction {
  Action action;
  double begin = 0, end = 0;
};

/// When everything in a schedule happens. With p stages of equal times T and m micro-batches, 1F1B has
/// bubble_of_ideal = (p-1)/m and bubble_of_total = (p-1)/(m+p-1): papers call both "the bubble fraction".
struct Timing {
  double makespan = 0;  ///< from the first begin to the last end
  double cost = 0;      ///< the longest span of a stage from its own first begin to its own last end (arXiv 2401.10241)
  std::vector<double> busy;                     ///< by stage: sum of its forward, backward and step times
  std::vector<std::vector<TimedAction>> spans;  ///< by stage, in order of begin; only if asked for

  double ideal() const;  ///< busy time of the busiest stage: what a step costs without any bubble
  double bubble() const { return cost - ideal(); }
  double bubble_of_ideal() const { return bubble() / ideal(); }
  double bubble_of_total() const { return bubble() / cost; }
};

struct SimulateOptions {
  StageRule rule = StageRule::strict;
  bool keep_spans = false;
};

/// Runs a schedule that has passed `check` on `times`, one a chunk. A forward waits for that of the chunk before and
/// its transfer, a backward for that of the chunk after, the last chunk's for its own forward. Cost: O(actions), 0.1
/// us each (work-conserving: O(actions log stages), about 1 us each).
Timing simulate(const Schedule& schedule, const std::vector<ChunkTimes>& times, const SimulateOptions& options = {});
/// The same times on all chunks.
Timing simulate(const Schedule& schedule, const ChunkTimes& times, const SimulateOptions& options = {});

}  // namespace troupe::ps
