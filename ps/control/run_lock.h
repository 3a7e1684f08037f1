#pragma once
#include <memory>
#include <string>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Held by the process that coordinates the run of a folder, alive or stopped, until it has ended: the system lets it
/// go even after kill -9 (flock). The file names its holder.
class RunLock {
 public:
  /// `path`: a file, made where there is none. ErrorKind::invalid where another process holds it.
  static Result<std::shared_ptr<RunLock>> take(const std::string& path);

 private:
  explicit RunLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace troupe::ps
