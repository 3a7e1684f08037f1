#pragma once
#include <signal.h>

#include <troupe/kernels/base/file_descriptor.h>

namespace troupe::launch {

/// SIGINT, SIGTERM and SIGHUP as something to poll for, as long as this lives; a SIGHUP that was ignored (nohup) stays
/// so. SIGPIPE is ignored. One a process, made before there are threads.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return fd_.get(); }  ///< readable when one has come
  /// Takes one of those that have come; false: none.
  bool take();

 private:
  sigset_t before_;
  void (*pipe_before_)(int);
  FileDescriptor fd_{-1};
};

}  // namespace troupe::launch
