#pragma once
#include <string>

#include <troupe/ps/ids.h>
#include <troupe/ps/metrics/trace_file.h>
#include <troupe/ps/pipeline/simulate.h>

namespace troupe::ps {

/// Rows that stages write into a trace: one a stage of a replica.
std::string stage_track(uint32_t stage, uint32_t replica);

/// What one replica's stages did in a step, as its trace tells, in seconds from the first event: to be drawn like a
/// simulated step, and compared with it. `missing` where the trace does not hold all of the step's actions.
Result<Timing> measured_timing(const TraceContent& trace, const Schedule& schedule, uint32_t replica, Step step);

/// The means of that step by chunk: what `simulate` needs to say how long it should have taken. Transfers count as 0.
std::vector<ChunkTimes> measured_times(const Schedule& schedule, const Timing& measured);

/// A step in the middle of those that the trace holds wholly; -1: none.
Step typical_step(const TraceContent& trace, const Schedule& schedule, uint32_t replica);

/// Measured beside predicted: step time, and the bubble under both definitions.
std::string compare_text(const Schedule& schedule, const Timing& measured, const Timing& predicted);

}  // namespace troupe::ps
