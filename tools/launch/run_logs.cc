#include "run_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {

Status RunLogs::open(const std::string& run_folder) {
  if (state_ != State::keeping) return {};
  folder_ = run_folder + "/logs";
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    state_ = State::dropping;
    return fail(ErrorKind::failed, cat(folder_, ": cannot make this folder: ", error.message(),
                                       "; the run goes on without logs of its processes"));
  }
  state_ = State::writing;
  Status first;
  for (auto& [name, log] : logs_) {
    std::string text = std::move(log.kept);
    if (log.left_out > 0) text += cat("(", log.left_out, " bytes left out: they came before the run had a folder)\n");
    const auto written = write(name, log, text);
    if (!written && first) first = written;
  }
  return first;
}

Status RunLogs::add(const std::string& name, std::string_view bytes) {
  if (state_ == State::dropping) return {};
  Log& log = logs_[name];
  if (state_ == State::writing) return write(name, log, bytes);
  const size_t taken = log.left_out > 0 ? 0 : std::min(bytes.size(), kMostKept - log.kept.size());
  log.kept += bytes.substr(0, taken);
  log.left_out += bytes.size() - taken;
  return {};
}

Status RunLogs::write(const std::string& name, Log& log, std::string_view bytes) {
  if (log.failed) return {};
  const std::string path = cat(folder_, "/", name, ".log");
  if (log.file.get() < 0)
    log.file = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  while (log.file.get() >= 0 && !bytes.empty()) {
    const ssize_t n = ::write(log.file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (bytes.empty() && log.file.get() >= 0) return {};
  log.failed = true;
  return fail(ErrorKind::failed,
              cat(path, ": cannot be written: ", std::strerror(errno), "; the run goes on without it"));
}

}  // namespace troupe::launch
