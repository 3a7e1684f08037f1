#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include <troupe/ps/metrics/line_file.h>

namespace troupe::ps {

enum class LogLevel : uint8_t { info, warning, error };

/// "2026-11-30 11:29:06.123 warning worker 2: text"; UTC. Lines after the first are indented.
std::string log_line(std::chrono::system_clock::time_point time, LogLevel level, const std::string& who,
                     const std::string& text);

/// log.txt of a run. Thread-safe: one write a line, whoever writes. A full disk loses lines, not the run.
class Log {
 public:
  using Clock = std::function<std::chrono::system_clock::time_point()>;
  /// What also wants to hear (the terminal); called by the writing thread, one call at a time.
  using Listener = std::function<void(LogLevel level, const std::string& who, const std::string& text)>;

  /// Without a file only the listener hears.
  Log(std::optional<LineFile> file, Clock clock, Listener listener = {});

  void write(LogLevel level, const std::string& who, const std::string& text);
  /// Lines that could not be written.
  int64_t failures() const;

 private:
  mutable std::mutex mutex_;
  std::optional<LineFile> file_;
  Clock clock_;
  Listener listener_;
};

}  // namespace troupe::ps
