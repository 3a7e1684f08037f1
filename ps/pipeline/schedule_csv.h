#pragma once
#include <string>
#include <string_view>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/pipeline/schedule.h>

namespace troupe::ps {

/// A schedule as a table: one line a stage, cells separated by commas, each CHUNK LETTER MICRO-BATCH without spaces
/// between: "0F3". F forward, I gradient of the input, W of the weights, B both (I, then W). CHUNK may be left out in
/// the whole table where chunk and stage are the same. Empty cells are columns in which the stage idles; they, blank
/// lines and lines that begin with # are skipped. 1F1B on 2 stages:
///
///     F0,F1,,B0,F2,B1,,B2
///     ,F0,B0,F1,B1,F2,B2,
///
/// (PyTorch's compute-only pipeline CSV is read as it is.) Gradients are sent on after W if all backwards are B, else
/// after I. One all_reduce and one step of every chunk follow at the end. The result has passed `check`. Errors begin
/// with NAME:LINE:COLUMN where there is a place, in characters from 1.
Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& name);
Result<Schedule> read_schedule_csv(const std::string& path);

/// What `parse_schedule_csv` reads back as the same schedule (but for its name, and steps that are not flushed).
std::string schedule_csv(const Schedule& schedule);

}  // namespace troupe::ps
