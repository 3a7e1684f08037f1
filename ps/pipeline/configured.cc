#include <troupe/ps/pipeline/configured.h>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/pipeline/check_schedule.h>
#include <troupe/ps/pipeline/schedule_csv.h>

namespace troupe::ps {

Result<Schedule> configured_schedule(const ParallelSection& parallel) {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  const ScheduleOptions options{.name = parallel.schedule,
                                .stages = number(parallel.stages),
                                .micro_batches = number(parallel.micro_batches),
                                .chunks = number(parallel.chunks)};
  const std::string& file = parallel.schedule_file;
  auto schedule = file.empty() ? make_schedule(options) : read_schedule_csv(file);
  if (!schedule) return schedule;
  if (schedule->stages != options.stages)
    return fail(ErrorKind::invalid, cat(file, " is a schedule of ", schedule->stages, " stages, and parallel.stages = ",
                                        parallel.stages));
  TROUPE_TRY(check(*schedule));
  return schedule;
}

Result<Schedule> running_schedule(const ParallelSection& parallel) {
  auto schedule = configured_schedule(parallel);
  if (schedule) schedule->fused_backward = false;
  return schedule;
}

}  // namespace troupe::ps
