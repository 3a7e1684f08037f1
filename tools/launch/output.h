#pragma once
#include <poll.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::launch {

enum class Stream { out, err };

/// The launcher's own standard output and error: whole lines, in the order in which they came, one write(2) a line.
/// No line is longer than kMostBytes, which a pipe takes whole or not at all; so nothing comes between its bytes.
/// A reader that is slow delays nobody until kEnough bytes wait, when whoever writes should wait; beyond kMost lines
/// are left out. One that is gone is forgotten.
class Output {
 public:
  static constexpr size_t kMostBytes = 4096;  ///< PIPE_BUF
  static constexpr size_t kEnough = 1 << 20;
  static constexpr size_t kMost = 4 << 20;

  Output(int out_fd, int err_fd) : fds_{out_fd, err_fd} {}

  /// `prefix` + `text` + a line end; what does not fit is left out.
  void line(Stream stream, std::string_view prefix, std::string_view text);
  /// Longest text that fits behind `prefix`.
  static size_t room(std::string_view prefix) { return kMostBytes - 1 - prefix.size(); }

  bool full() const { return waiting_bytes_ > kEnough; }
  bool empty() const { return waiting_.empty(); }
  /// What to poll for before `write_ready` can do something; fd -1 where nothing waits.
  pollfd poll_for() const;
  /// Writes what can be written without waiting.
  void write_ready();

 private:
  struct Line {
    Stream stream;
    std::string text;
  };
  bool write_first();

  int fds_[2];
  bool gone_[2] = {false, false};
  std::deque<Line> waiting_;
  size_t waiting_bytes_ = 0;
};

}  // namespace troupe::launch
