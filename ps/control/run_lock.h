#pragma once
#include <memory>
#include <string>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Differs between machines, and between one's starts; empty where the system does not say.
std::string this_kernel();

/// Held by the process that coordinates the run of a folder, alive or stopped, until it has ended: the system lets it
/// go even after kill -9 (flock). The file names its holder, and stays. Under one kernel that is exact. Between
/// machines that share the folder it need not be: file systems differ in whether a lock of one is seen by the others.
/// So a lock that was left under another kernel, or where one of the two cannot be told, is taken only once a person
/// has deleted its file. Whoever deletes it otherwise, as a run that is over does with its folder, may do so while
/// others try: none of them gets a lock that the next does not see.
class RunLock {
 public:
  /// `path`: a file, made where there is none. ErrorKind::invalid where another process holds it, or may.
  static Result<std::shared_ptr<RunLock>> take(const std::string& path, const std::string& kernel = this_kernel());
  /// Locks a file that was opened by that name, in which another may be by now; false: so it is, and the lock excludes
  /// nobody.
  static Result<bool> hold(int file, const std::string& path);

 private:
  explicit RunLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace troupe::ps
