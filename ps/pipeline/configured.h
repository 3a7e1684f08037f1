#pragma once
#include <troupe/ps/config/run_config.h>
#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// What stages run under these settings: the named schedule, or the one of parallel.schedule_file. It has passed
/// `check`. Stages send the gradient of an input before they make those of the weights, whatever the schedule is known for.
Result<Schedule> configured_schedule(const ParallelSection& parallel);

}  // namespace troupe::ps
