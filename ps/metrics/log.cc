#include <troupe/ps/metrics/log.h>

#include <array>
#include <cstdio>
#include <ctime>

namespace troupe::ps {
namespace {

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "?";
}

}  // namespace

std::string log_line(std::chrono::system_clock::time_point time, LogLevel level, const std::string& who,
                     const std::string& text) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> day;
  std::array<char, 48> stamp;
  std::strftime(day.data(), day.size(), "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(stamp.data(), stamp.size(), "%s.%03d", day.data(), static_cast<int>(ms % 1000));
  std::string line = std::string(stamp.data()) + ' ' + name_of(level) + ' ' + who + ": ";
  for (const char c : text) line += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return line;
}

Log::Log(std::optional<LineFile> file, Clock clock, Listener listener)
    : file_(std::move(file)), clock_(std::move(clock)), listener_(std::move(listener)) {}

void Log::write(LogLevel level, const std::string& who, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (file_) file_->append(log_line(clock_(), level, who, text));
  if (listener_) listener_(level, who, text);
}

int64_t Log::failures() const {
  const std::lock_guard lock(mutex_);
  return file_ ? file_->failures() : 0;
}

}  // namespace troupe::ps
