#include "line_splitter.h"

#include <algorithm>

namespace troupe::launch {
namespace {

/// Where to cut `text`, which is longer than `most`: not within a character (its bytes after the first are 10xxxxxx).
size_t cut_of(std::string_view text, size_t most) {
  for (size_t at = most; at + 4 > most && at > 0; --at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) return at;
  return most;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const Piece& piece) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    held_ += bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    while (held_.size() > most_) {
      const size_t cut = cut_of(held_, most_);
      piece(std::string_view(held_).substr(0, cut), false);
      held_.erase(0, cut);
      middle_ = true;
    }
    if (end == std::string_view::npos) return;
    piece(held_, true);
    held_.clear();
    middle_ = false;
  }
}

void LineSplitter::finish(const Piece& piece) {
  if (!held_.empty() || middle_) piece(held_, true);
  held_.clear();
  middle_ = false;
}

}  // namespace troupe::launch
