#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace troupe::launch {

/// `word` as a POSIX shell reads it back, whatever is in it; unchanged where that is safe.
std::string shell_quoted(std::string_view word);
/// The words of a command, each quoted, with spaces between.
std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace troupe::launch
