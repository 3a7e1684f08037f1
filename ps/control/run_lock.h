#pragma once
#include <memory>
#include <string>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Held by the process that coordinates the run of a folder, alive or stopped, until it has ended: the system lets it
/// go even after kill -9 (flock). The file names its holder, and stays. Under one kernel that is exact. Between
/// machines that share the folder it need not be: file systems differ in whether a lock of one is seen by the others.
/// So a lock that was left under another kernel is taken only once a person has deleted its file.
class RunLock {
 public:
  /// `path`: a file, made where there is none. ErrorKind::invalid where another process holds it, or may.
  static Result<std::shared_ptr<RunLock>> take(const std::string& path);

 private:
  explicit RunLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace troupe::ps
