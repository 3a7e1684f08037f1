#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <troupe/kernels/tensor/executor.h>
#include <troupe/ps/metrics/log.h>
#include <troupe/ps/metrics/progress.h>

/// Progress on standard output, the log's lines on standard error, neither in the middle of the other. Written from a
/// thread of its own: whoever reads may stand still (a terminal held, a pager), and the run goes on.
class Console {
 public:
  Console();

  /// Progress is counted from here.
  void begin(int64_t first_step);
  void progress(const troupe::ps::Progress& progress, bool last);
  void line(const std::string& text);
  void log(troupe::ps::LogLevel level, const std::string& who, const std::string& text);
  /// Waits until everything is written.
  void flush();

 private:
  void say(std::function<void()> write);

  std::atomic<int> waiting_{0};
  troupe::ps::ProgressPrinter printer_;  // the writer's
  std::unique_ptr<troupe::Executor> writer_;
};
