#include "output.h"

#include <unistd.h>

#include <cerrno>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {

void Output::line(Stream stream, std::string_view prefix, std::string_view text) {
  if (gone_[static_cast<int>(stream)] || waiting_bytes_ > kMost) return;
  waiting_.push_back({stream, cat(prefix, text.substr(0, room(prefix)), '\n')});
  waiting_bytes_ += waiting_.back().text.size();
}

pollfd Output::poll_for() const {
  if (waiting_.empty()) return {-1, 0, 0};
  return {fds_[static_cast<int>(waiting_.front().stream)], POLLOUT, 0};
}

/// One write(2) where the system takes the line whole, which pipes, files and terminals do. False: not now.
bool Output::write_first() {
  Line& first = waiting_.front();
  const int stream = static_cast<int>(first.stream);
  const ssize_t n = gone_[stream] ? static_cast<ssize_t>(first.text.size())
                                  : ::write(fds_[stream], first.text.data(), first.text.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n < 0) {
    gone_[stream] = true;  // the logs of the run have it all the same
    return true;
  }
  waiting_bytes_ -= static_cast<size_t>(n);
  first.text.erase(0, static_cast<size_t>(n));
  if (first.text.empty()) waiting_.pop_front();
  return true;
}

void Output::write_ready() {
  for (pollfd next = poll_for(); next.fd >= 0 && ::poll(&next, 1, 0) > 0; next = poll_for())
    if (!write_first()) return;
}

}  // namespace troupe::launch
