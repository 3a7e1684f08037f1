#include <troupe/ps/pipeline/configured.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/pipeline/check_schedule.h>
#include <troupe/ps/pipeline/schedule_csv.h>

namespace troupe::ps {

namespace {

ScheduleOptions options_of(const ParallelSection& parallel) {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  return {.name = parallel.schedule,
          .stages = number(parallel.stages),
          .micro_batches = number(parallel.micro_batches),
          .chunks = number(parallel.chunks)};
}

Result<Schedule> checked_schedule(const ParallelSection& parallel, const ScheduleOptions& options) {
  const std::string& file = parallel.schedule_file;
  auto schedule = file.empty() ? make_schedule(options) : read_schedule_csv(file);
  if (!schedule) return schedule;
  if (schedule->stages != options.stages)
    return fail(ErrorKind::invalid, cat(file, " is a schedule of ", schedule->stages, " stages, and parallel.stages = ",
                                        parallel.stages));
  TROUPE_TRY(check(*schedule));
  return schedule;
}

}  // namespace

Result<Schedule> configured_schedule(const ParallelSection& parallel) {
  ScheduleOptions options = options_of(parallel);
  if (!parallel.asynchronous()) return checked_schedule(parallel, options);
  // Without a flush there is no end of a step to draw: as many steps that every stage has run full for a while.
  const uint32_t a_step = options.micro_batches / static_cast<uint32_t>(parallel.steps_per_batch());
  const uint32_t steps = (4 * options.stages + a_step - 1) / a_step;
  if (options.name == "pipedream-2bw") options.accumulate = a_step;
  options.micro_batches = std::max<uint32_t>(steps, 2) * a_step;
  return checked_schedule(parallel, options);
}

Result<Schedule> running_schedule(const ParallelSection& parallel) {
  ScheduleOptions options = options_of(parallel);
  options.micro_batches /= static_cast<uint32_t>(parallel.steps_per_batch());
  if (options.name == "pipedream-2bw") options.accumulate = options.micro_batches;
  auto schedule = checked_schedule(parallel, options);
  if (schedule) schedule->fused_backward = false;
  return schedule;
}

}  // namespace troupe::ps
