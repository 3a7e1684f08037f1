#pragma once
#include <functional>
#include <memory>
#include <string_view>

#include <troupe/kernels/base/result.h>

namespace troupe::ps::internal {

/// Cuts text into words as GPT-2 does before it joins bytes:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Every byte is in one word. Const calls are safe from any thread.
class Words {
 public:
  Words();
  ~Words();
  Words(Words&&) noexcept;

  /// Calls `take` with one word after the other. ErrorKind::invalid, with the byte, where text is not UTF-8.
  Status cut(std::string_view text, const std::function<void(std::string_view word)>& take) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace troupe::ps::internal
