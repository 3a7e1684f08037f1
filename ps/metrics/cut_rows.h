#pragma once
#include <cstdint>
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Cuts a metrics file (metrics.csv or metrics.jsonl, by its ending) off before its first row of a later step than
/// `last_step`, and before a line that has no end: a run that was killed leaves rows past the checkpoint from which it
/// is resumed, and takes those steps again. A file that is not there is fine; a CSV file keeps its header. Lines in
/// which no step is found are taken for somebody's own and stay where they are.
Status cut_rows_after(const std::string& path, int64_t last_step);

}  // namespace troupe::ps
