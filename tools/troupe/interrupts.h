#pragma once
#include <functional>
#include <thread>

/// Ctrl-C, SIGTERM and a terminal that closes: the first asks what runs to end, the second ends the process at once. A
/// handler may only write to a pipe; a thread reads it and calls `on_first`. One a process, as signals are. SIGPIPE is
/// ignored: whoever reads the progress may go.
class Interrupts {
 public:
  explicit Interrupts(std::function<void()> on_first);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  std::thread thread_;
};
