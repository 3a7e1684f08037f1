#pragma once
#include <troupe/ps/config/run_config.h>
#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// What stages run under these settings: the named schedule, or the one of parallel.schedule_file. It has passed
/// `check`. Asynchronous ones are given over several steps, as they follow each other.
Result<Schedule> configured_schedule(const ParallelSection& parallel);

/// The same as stages run it: the gradient of an input leaves before those of the weights are made, also where a
/// schedule is known for making them in one call. Of asynchronous ones a single step (StageCore lets steps overlap).
Result<Schedule> running_schedule(const ParallelSection& parallel);

}  // namespace troupe::ps
