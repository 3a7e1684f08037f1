#pragma once
#include <signal.h>

namespace troupe::launch {

/// SIGINT, SIGTERM and SIGHUP as something to poll for, as long as this lives; a SIGHUP that was ignored (nohup) stays
/// so. SIGPIPE is ignored. One a process at a time, as signals are.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return pipe_[0]; }  ///< readable when one has come
  /// Takes one of those that have come; false: none.
  bool take();

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  static inline int pipe_[2] = {-1, -1};  // a handler can only write to a pipe
  struct sigaction before_[4];
};

}  // namespace troupe::launch
