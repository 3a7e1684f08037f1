#pragma once
#include <map>
#include <string>
#include <string_view>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// RUN/logs/NAME.log for every process of a run. What comes before the run's folder is known is kept, at most
/// kMostKept bytes a process; a line in the log says so where something had to be left out.
class RunLogs {
 public:
  static constexpr size_t kMostKept = 1 << 20;

  /// Makes RUN/logs and writes what was kept. A second call is ignored. Fails where the folder cannot be made; logs
  /// are then dropped.
  Status open(const std::string& run_folder);
  /// Appends bytes to NAME.log. Fails once for a log, where it cannot be written; the rest of it is then dropped.
  Status add(const std::string& name, std::string_view bytes);
  const std::string& folder() const { return folder_; }

 private:
  enum class State { keeping, writing, dropping };
  struct Log {
    FileDescriptor file{-1};
    std::string kept;
    size_t left_out = 0;
    bool failed = false;
  };
  Status write(const std::string& name, Log& log, std::string_view bytes);

  State state_ = State::keeping;
  std::string folder_;
  std::map<std::string, Log> logs_;
};

}  // namespace troupe::launch
