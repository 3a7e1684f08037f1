#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace troupe::launch {

/// Cuts a stream of bytes into lines. A line longer than `most` bytes comes in pieces, cut between characters of
/// UTF-8 where there is such a place.
class LineSplitter {
 public:
  /// `text` without its line end; `whole`: the line ends here, else another piece follows.
  using Piece = std::function<void(std::string_view text, bool whole)>;

  explicit LineSplitter(size_t most) : most_(most) {}
  void feed(std::string_view bytes, const Piece& piece);
  /// The stream has ended: a last line without its end is a line too.
  void finish(const Piece& piece);

 private:
  size_t most_;
  std::string held_;
  bool middle_ = false;  ///< the last piece was not whole
};

}  // namespace troupe::launch
